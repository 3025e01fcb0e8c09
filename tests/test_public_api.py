"""The public names: those of `__all__`, all of them there, documented and typed; and no others."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import types
import warnings
from pathlib import Path

import pytest

import arrayferry
from arrayferry import errors, testing
from arrayferry.wrappers import array_conversion, jax_to_numpy, jax_to_torch, numpy_to_torch

ROOT = Path(__file__).resolve().parent.parent

# The front door, whole: about 20 names.
NAMES = set(
    """
    wrap convert Converter explain check sanitize findings in_jit
    frameworks Framework Source Target register_framework register_container register_leaf
    FerryError envs errors learners sanitizer scale spaces testing wrappers
    """.split()
)


def test_the_front_door_is_small():
    assert set(arrayferry.__all__) == NAMES
    assert len(arrayferry.__all__) == len(set(arrayferry.__all__))


def test_no_submodule_is_hidden_by_what_it_defines():
    for found in pkgutil.walk_packages(arrayferry.__path__, "arrayferry."):
        if ".cli" in found.name or found.name.endswith(("__main__", "._speedups", "._words")):
            continue
        package, _, name = found.name.rpartition(".")
        # Subclasses of what another package has; and the one function that is as public as its module.
        if package == "arrayferry.learners" or found.name == "arrayferry.wrappers.wrap":
            continue
        try:
            module = importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            assert error.name == "pettingzoo"  # noqa: PT017  # which is not for every Python
            continue
        assert getattr(sys.modules[package], name) is module, found.name


def test_nothing_else_is_public():
    public = {
        name
        for name, value in vars(arrayferry).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("arrayferry")
    }
    assert public <= set(arrayferry.__all__)
    assert set(dir(arrayferry)) == set(arrayferry.__all__)


@pytest.mark.parametrize("name", sorted(arrayferry.__all__))
def test_name_is_there_and_documented(name):
    value = getattr(arrayferry, name)
    assert inspect.getdoc(value)
    if not isinstance(value, types.ModuleType):
        assert value.__module__.startswith("arrayferry")
        assert name in (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


# What Gymnasium documents, and what its own part of the page documents as a whole, are left out.
ROOMS = [getattr(arrayferry, name) for name in "envs errors learners sanitizer scale spaces".split()]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_names_of_the_rooms_are_in_the_reference(room):
    reference = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in room.__all__ if not re.search(rf":: .*\b{name}\b", reference)] == []


@pytest.mark.parametrize("module", [errors, testing], ids=lambda module: module.__name__)
def test_modules_list_what_they_define(module):
    defined = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    assert set(module.__all__) <= set(vars(module))
    assert {name for name in defined if not name.startswith("check_")} <= set(module.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'convrt'"):
        _ = arrayferry.convrt


def test_errors_are_public():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    kinds = [kind for kind in kinds if kind.__module__ == errors.__name__]
    assert len(kinds) >= 9
    assert {kind.__name__ for kind in kinds} <= set(errors.__all__)


FUNCTIONS = [
    getattr(module, name)
    for module in (arrayferry, testing)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name)) or inspect.isclass(getattr(module, name))
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_name_is_typed(function):
    if inspect.isclass(function) and issubclass(function, Warning):
        pytest.skip("it has no arguments of its own")
    signature = inspect.signature(function)
    empty = inspect.Parameter.empty
    assert [p.name for p in signature.parameters.values() if p.annotation is empty and p.name != "self"] == []
    assert inspect.isclass(function) or signature.return_annotation is not empty


def test_types_are_shipped():
    assert (Path(arrayferry.__file__).parent / "py.typed").exists()


def test_signatures_are_those_that_were_promised():
    def of(function):
        return [name for name in inspect.signature(function).parameters if not name.startswith("_")]

    assert of(arrayferry.convert) == ["value", "to", "device", "copy", "dtypes", "unknown"]
    assert of(arrayferry.Converter) == ["to", "device", "copy", "dtypes"]
    assert of(array_conversion.array_conversion) == ["value", "xp", "device"]
    assert of(numpy_to_torch.numpy_to_torch) == of(jax_to_torch.jax_to_torch) == ["value", "device"]
    kinds = {p.name: p.kind.name for p in inspect.signature(arrayferry.convert).parameters.values()}
    assert kinds["copy"] == kinds["dtypes"] == "KEYWORD_ONLY"


PAIRS = ["jax_to_numpy", "numpy_to_jax", "jax_to_torch", "torch_to_jax", "numpy_to_torch", "torch_to_numpy"]


def pair_function(pair):
    modules = jax_to_numpy, jax_to_torch, numpy_to_torch
    return next(getattr(module, pair) for module in modules if pair in module.__all__)


@pytest.mark.parametrize("name", ["convert", "explain", "check"])
def test_functions_agree_with_wrap(name):
    own, wraps = (inspect.signature(getattr(arrayferry, f)).parameters for f in (name, "wrap"))
    shared = [parameter for parameter in wraps if parameter in own]
    assert [parameter for parameter in own if parameter in wraps] == shared
    assert {"to", "device", "copy", "dtypes"} <= set(shared)
    for parameter in set(shared) - {"to"}:  # `check` has a default for it, as its command has
        assert own[parameter].default == wraps[parameter].default
        assert own[parameter].kind == wraps[parameter].kind


@pytest.mark.parametrize("pair", PAIRS)
def test_pair_functions(pair):
    source, target = pair.split("_to_")
    for name in source, target:
        if name not in arrayferry.frameworks():
            pytest.skip(f"{name} is not installed")
    value = {"x": arrayferry.convert([0.5, 1], source), "text": "text"}
    result = pair_function(pair)(value)
    wanted = arrayferry.convert(0.5, target)
    assert [type(leaf) for leaf in result["x"]] == [type(wanted)] * 2
    assert result["text"] == "text"
    assert float(array_conversion.array_conversion(value, target)["x"][0]) == 0.5
    if target != "numpy":
        assert float(pair_function(pair)(value, "cpu")["x"][0]) == 0.5


def test_frameworks_tell_versions_and_devices():
    found = arrayferry.frameworks()
    assert list(found)[0] == "numpy"  # noqa: RUF015
    for name, info in found.items():
        assert info.name == name
        assert info.version[0].isdigit()
    assert found["numpy"].devices == ("cpu",)


def test_warnings_stay_errors_while_importing_everything():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(getattr(arrayferry, name) is not None for name in arrayferry.__all__)
