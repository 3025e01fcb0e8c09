"""Classes that are registered as pytrees of JAX: leaves are converted, static fields are untouched."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import arrayferry
from arrayferry._frameworks import _containers, _jax_private

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

tree_util = jax.tree_util

STATIC = (1, 2.5, np.array([7, 8]))


@dataclasses.dataclass(frozen=True)
class Registered:
    x: Any
    size: Any
    nested: Any


@dataclasses.dataclass
class NotRegistered:
    x: Any
    size: Any


class Custom:
    """No dataclass: JAX alone knows what is in it."""

    def __init__(self, x: Any, size: Any) -> None:
        self.x, self.size = x, size


class Keyed(Custom):
    """Its children have names."""


class Settings:
    """All of it is static."""


tree_util.register_dataclass(Registered, data_fields=["nested", "x"], meta_fields=["size"])
tree_util.register_pytree_node(Custom, lambda c: ([c.x], c.size), lambda size, new: Custom(new[0], size))
tree_util.register_pytree_with_keys(
    Keyed, lambda c: ([(tree_util.DictKey("x"), c.x)], c.size), lambda size, new: Keyed(new[0], size)
)
tree_util.register_static(Settings)


def round_trip(value: Any, name: str) -> Any:
    there = arrayferry.convert(value, name)
    back = arrayferry.convert(there, "jax")
    assert tree_util.tree_structure(back) == tree_util.tree_structure(value)
    for old, new in zip(tree_util.tree_leaves(value), tree_util.tree_leaves(back), strict=True):
        assert isinstance(new, jax.Array)
        assert old.dtype == new.dtype
        assert np.array_equal(old, new)
    return there


def array_type(name: str) -> type:
    return type(arrayferry.convert(np.zeros(1), name))


def test_a_dataclass_with_static_fields(name):
    inner = Registered(jnp.ones(2), "left", {"list": [jnp.zeros(1)]})
    value = Registered(jnp.arange(3.0), 5, inner)
    found = round_trip(value, name)
    assert (type(found.size), found.size, found.nested.size) == (int, 5, "left")
    assert isinstance(found.x, array_type(name))
    assert isinstance(found.nested.nested["list"][0], array_type(name))


def test_static_fields_are_the_same_objects(name):
    found = arrayferry.convert(Registered(jnp.ones(2), STATIC, None), name)
    assert found.size is STATIC
    assert arrayferry.convert(Custom(jnp.ones(2), STATIC), name).size is STATIC
    assert isinstance(arrayferry.convert(NotRegistered(jnp.ones(2), 3), name).size, array_type(name))


def test_attributes_that_jax_does_not_know_are_kept(name):
    value = Registered(jnp.ones(2), 5, None)
    object.__setattr__(value, "label", "set later")
    assert arrayferry.convert(value, name).label == "set later"


@pytest.mark.parametrize("kind", [Custom, Keyed])
def test_other_classes(name, kind):
    found = round_trip(kind(jnp.arange(3), "static"), name)
    assert type(found) is kind
    assert isinstance(found.x, array_type(name))
    assert found.size == "static"


def test_a_flax_struct(name):
    struct = pytest.importorskip("flax.struct")

    @struct.dataclass
    class State:
        x: Any
        size: int = struct.field(pytree_node=False)

    found = round_trip(State(jnp.ones(3), 4), name)
    assert type(found.size) is int
    assert isinstance(found.replace(size=5).x, array_type(name))


def test_what_is_static_as_a_whole_and_functions_with_arguments(name):
    settings = Settings()
    assert arrayferry.convert([settings], name) == [settings]
    found = arrayferry.convert(tree_util.Partial(divmod, jnp.ones(2)), name)
    assert isinstance(found.args[0], array_type(name))


def test_errors_have_paths():
    big = np.array([2**40])
    for value, path in [
        (Registered(None, 0, {"a": big}), 'value.nested["a"]'),
        (Keyed(big, 0), 'value["x"]'),
        (Custom(big, 0), "value[0]"),
    ]:
        with pytest.raises(OverflowError) as caught:
            arrayferry.convert(value, "jax")
        assert caught.value.where == path


def test_what_its_functions_raise_is_told():
    class Fails(Custom): ...

    def flatten(_: Any) -> Any:
        raise RuntimeError("the state is gone")

    tree_util.register_pytree_node(Fails, flatten, lambda size, new: Fails(new[0], size))
    with pytest.raises(arrayferry.errors.UnsupportedError, match="cannot be read: RuntimeError: the state"):
        arrayferry.convert(Fails(1, 2), "numpy")


def test_what_a_user_registered_comes_first(name):
    arrayferry.register_container(Custom, values=lambda c: [c.size], build=lambda c, new: Custom(c.x, *new))
    array = jnp.ones(2)
    found = arrayferry.convert(Custom(array, 3), name)
    assert found.x is array
    assert isinstance(found.size, array_type(name))


def test_older_versions_of_jax_know_it_too():
    """They have no public function for it: when this fails, theirs has moved."""

    class Old:
        __name__ = "jax.tree_util"

    for cls, want in [(Registered, True), (Custom, True), (NotRegistered, False), (np.ndarray, False)]:
        assert _jax_private.is_pytree(Old(), cls) is want
        assert _jax_private.is_pytree(tree_util, cls) is want


def test_none_is_a_leaf_though_jax_has_it_as_a_node() -> None:
    assert _containers.find(type(None)) is None
    assert [leaf.path for leaf in arrayferry.explain({"x": None}, "numpy").leaves] == ['value["x"]']
