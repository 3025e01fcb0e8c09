"""Containers come back as themselves; the input is never written to; depth and cycles."""

from __future__ import annotations

import copy
import dataclasses
import time
import typing
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from arrayferry import convert
from arrayferry.errors import CircularError, UnsupportedError
from arrayferry.testing import CONTAINERS, zip_leaves

LEAF = np.arange(3, dtype="float32")


def snapshot(value: Any) -> list[int]:
    """The identities of all that is inside."""
    return [id(leaf) for leaf, _ in zip_leaves(value, value)]


@pytest.mark.parametrize("outer", CONTAINERS)
@pytest.mark.parametrize("inner", CONTAINERS)
def test_every_container_in_every_container(outer, inner):
    source = CONTAINERS[outer]([LEAF, CONTAINERS[inner](["text", LEAF])])
    before = snapshot(source)
    result = convert(source, "numpy")
    for old, new in zip_leaves(source, result):
        assert new is not LEAF
        assert np.array_equal(old, new)
    assert snapshot(source) == before
    assert result is not source


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_empty_container(make):
    source = make([])
    result = convert(source, "numpy")
    assert all(new is old is None for old, new in zip_leaves(source, result))
    assert result is not source or source == ()


class Settings(dict):
    def __init__(self, values, owner):
        super().__init__(values)
        self.owner = owner


class History(list):
    def __init__(self, values, owner):
        super().__init__(values)
        self.owner = owner


class Point(NamedTuple):
    x: Any
    y: Any = 0

    @property
    def length(self):
        return self.x + self.y


class Strict(namedtuple("Strict", "x y")):
    def __new__(cls, x, y):
        assert x is not None, "made by the constructor"
        return super().__new__(cls, x, y)


class Ring(deque):
    pass


class Ordered(OrderedDict):
    pass


class Defaulting(defaultdict):
    pass


@pytest.mark.parametrize(
    "source",
    [
        Settings({"x": LEAF}, "me"),
        History([LEAF], "me"),
        Point(LEAF, "y"),
        Strict(LEAF, 1),
        Ring([LEAF], maxlen=3),
        Ordered(x=LEAF),
        Defaulting(list, x=LEAF),
        Counter({"x": 2}),
        type("Triple", (tuple,), {})([LEAF, 1, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_subclass_comes_back_with_all_it_has(source):
    result = convert(source, "numpy")
    for old, new in zip_leaves(source, result):
        assert np.array_equal(old, new)
    assert getattr(result, "__dict__", None) == getattr(source, "__dict__", None)
    assert result is not source


def test_struct_sequence():
    source = time.gmtime(0)
    assert type(convert(source, "numpy")) is time.struct_time
    torch = pytest.importorskip("torch")
    result = convert(torch.max(torch.eye(2), 0), "numpy")
    assert type(result) is torch.return_types.max
    assert result.indices.tolist() == [0, 1]


def test_defaultdict_keeps_its_factory():
    result = convert(defaultdict(list, x=LEAF), "numpy")
    assert result["missing"] == []


def test_deque_keeps_its_length():
    result = convert(deque([0, LEAF, LEAF], maxlen=2), "numpy")
    result.append("new")
    assert result.maxlen == len(result) == 2


def test_order_is_kept():
    names = [str(n) for n in (3, 1, 2)]
    for cls in dict, OrderedDict, UserDict:
        assert list(convert(cls((name, LEAF) for name in names), "numpy")) == names


def test_keys_of_any_type_are_the_same_objects():
    keys = [1, "1", 1.5, None, (1, "a"), frozenset({1}), object(), True + 1, b"x", np.int64(7), int]
    source = dict.fromkeys(keys, LEAF)
    for mapping in source, UserDict(source), OrderedDict(source):
        result = convert(mapping, "numpy")
        assert all(new is old for old, new in zip(mapping, result, strict=True))


# --- dataclasses


@dataclasses.dataclass
class Plain:
    x: Any
    name: str = "plain"
    hidden: Any = dataclasses.field(default=1.5, init=False, repr=False)
    shared: typing.ClassVar[Any] = LEAF


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    name: str = "frozen"


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    x: Any
    name: str = "slots"


@dataclasses.dataclass(kw_only=True)
class Checked(Plain):
    extra: dataclasses.InitVar[int] = 0

    def __post_init__(self, extra):
        assert isinstance(self.x, np.ndarray), "built by the constructor, with a tensor in x"


@pytest.mark.parametrize("cls", [Plain, Frozen, Slots, Checked])
def test_dataclass(cls, name):
    source = cls(x=LEAF)
    result = convert(source, name)
    assert type(result) is cls
    assert result is not source
    assert type(result.x) is type(convert(LEAF, name))
    assert result.name is source.name
    assert source.x is LEAF


def test_dataclass_keeps_attributes_that_are_no_fields():
    source = Plain(LEAF)
    source.note = "kept"
    result = convert(source, "numpy")
    assert (result.note, result.hidden) == ("kept", np.array(1.5))
    assert source.hidden == 1.5


def test_dataclass_with_an_unset_field():
    source = Plain(LEAF)
    del source.x
    result = convert(source, "numpy")
    assert not hasattr(result, "x")
    assert result.name == "plain"


def test_dataclass_itself_is_a_leaf():
    assert convert([Plain], "numpy")[0] is Plain


def test_flax_dataclass():
    struct = pytest.importorskip("flax.struct")

    @struct.dataclass
    class State:
        position: Any
        label: str = struct.field(pytree_node=False, default="run")

    source = State(LEAF)
    result = convert(source, "jax")
    assert type(result) is State
    assert type(result.position) is type(convert(LEAF, "jax"))
    assert result.replace(label="x").label == "x"
    assert source.position is LEAF


# --- other mappings


class Squares(Mapping):
    """A Mapping that computes: nobody can put values into it."""

    def __getitem__(self, key):
        return key**2

    def __iter__(self):
        return iter(range(3))

    def __len__(self):
        return 3


class Forgetful(UserDict):
    def __init__(self, values):
        super().__init__(dict.fromkeys(values, 0))


@pytest.mark.parametrize(
    "source",
    [
        MappingProxyType({"x": LEAF, 1: "one"}),
        UserDict({"x": LEAF, 1: "one"}),
        ChainMap({"x": LEAF}, {1: "one", "x": "hidden"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_mapping_comes_back_as_itself(source):
    result = convert(source, "numpy")
    assert type(result) is type(source)
    assert dict(result).keys() == dict(source).keys()
    assert result[1] == "one"
    assert np.array_equal(result["x"], LEAF)
    assert result["x"] is not LEAF
    assert source["x"] is LEAF


def test_flax_frozen_dict():
    FrozenDict = pytest.importorskip("flax.core").FrozenDict
    source = FrozenDict({"layer": {"kernel": LEAF}, "step": 1})
    result = convert(source, "jax")
    assert type(result) is FrozenDict
    assert type(result["layer"]["kernel"]) is type(convert(LEAF, "jax"))
    assert source["layer"]["kernel"] is LEAF


@pytest.mark.parametrize("source", [Squares(), Forgetful({"a": 1})], ids=["computed", "forgetful"])
def test_mapping_that_cannot_be_built_is_refused(source):
    with pytest.raises(UnsupportedError) as caught:
        convert({"a": [source]}, "numpy")
    assert caught.value.where == 'value["a"][0]'
    assert f"register_container({type(source).__name__}" in caught.value.hint


def test_other_collections_are_leaves():
    for leaf in SimpleNamespace(x=LEAF), {1, 2}, {"x": 1}.keys(), np.nditer(LEAF):
        assert convert([leaf], "numpy")[0] is leaf


# --- the input is never written to


class CopiesAreMe:
    """What an immutable class may do, since nobody should notice."""

    def __copy__(self):
        return self


class MyDict(CopiesAreMe, dict):
    pass


class MyList(CopiesAreMe, list):
    pass


class MyDeque(CopiesAreMe, deque):
    pass


@dataclasses.dataclass(frozen=True)
class MyData(CopiesAreMe):
    x: Any


@pytest.mark.parametrize(
    "source",
    [MyDict(x=LEAF), MyList([LEAF]), MyDeque([LEAF]), MyData(LEAF)],
    ids=lambda value: type(value).__name__,
)
def test_input_is_not_written_to_even_if_it_copies_as_itself(source):
    assert copy.copy(source) is source
    try:
        result = convert(source, "numpy")
    except UnsupportedError:
        result = None
    assert snapshot(source) == [id(LEAF)]
    assert result is not source


# --- depth, cycles, sharing


@pytest.mark.parametrize("depth", [1_000, 5_000])
@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_depth(make, depth):
    source = LEAF
    for _ in range(depth):
        source = make([source])
    result = convert(source, "numpy")
    for _ in range(depth):
        assert type(result) is type(source)
        result, source = (first(result), first(source))
    assert np.array_equal(result, LEAF)


def first(container):
    if isinstance(container, Mapping):
        return container["a"]
    return container.left if dataclasses.is_dataclass(container) else container[0]


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_cycle_is_an_error(make):
    loop: list[Any] = []
    loop.append(make([loop, 1]))
    with pytest.raises(CircularError, match=r"^value\[.*contains itself") as caught:
        convert({"ok": 1, "bad": [1, loop]}["bad"], "numpy")
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 1_000


def test_cycle_is_named_where_it_closes():
    loop: dict[str, Any] = {}
    loop["me"] = loop
    with pytest.raises(CircularError, match=r'value\["x"\](\["me"\])*: this dict contains itself'):
        convert({"x": loop}, "numpy")


def test_the_same_object_twice_is_no_cycle():
    shared = {"x": LEAF}
    result = convert([shared, [shared, (shared,)]], "numpy")
    assert np.array_equal(result[1][1][0]["x"], LEAF)


def test_path_of_every_kind_of_step():
    bad = np.full((2, 2), None, object)
    bad[1, 0] = MappingProxyType({("k", 1): deque([0, {"it's": {3: 2**70}}])})
    source = {"camera": [0, Point(0, Plain(bad))]}
    path = 'value["camera"][1].y.x[1, 0][(\'k\', 1)][1]["it\'s"][3]'
    with pytest.raises(OverflowError) as caught:
        convert(source, "numpy")
    assert caught.value.where == path
    assert str(caught.value).startswith(path + ": ")
