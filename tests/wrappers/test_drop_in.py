"""Replacing `gymnasium.wrappers` by `arrayferry.wrappers` in an import keeps a program working."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import gymnasium as gym
import gymnasium.wrappers
import numpy as np
import pytest

import arrayferry.wrappers

torch = pytest.importorskip("torch")
pytest.importorskip("jax")

THEIRS = {"": gymnasium.wrappers, ".vector": gymnasium.wrappers.vector}
NAMES = [(where, name) for where, module in THEIRS.items() for name in module.__all__]
CONVERSIONS = ["ArrayConversion", "JaxToNumpy", "JaxToTorch", "NumpyToTorch"]
SUBMODULES = ["array_conversion", "jax_to_numpy", "jax_to_torch", "numpy_to_torch"]


@pytest.mark.parametrize(("where", "name"), NAMES)
def test_every_name_is_there(where: str, name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"from arrayferry.wrappers{where} import {name} as found", scope)
    module = importlib.import_module(f"arrayferry.wrappers{where}")
    assert scope["found"] is getattr(module, name)
    if name not in (*CONVERSIONS, "vector"):
        assert scope["found"] is getattr(THEIRS[where], name)


@pytest.mark.parametrize("where", THEIRS)
@pytest.mark.parametrize("name", CONVERSIONS)
def test_the_conversions_are_ours(where: str, name: str) -> None:
    found = getattr(importlib.import_module(f"arrayferry.wrappers{where}"), name)
    assert found.__module__.startswith("arrayferry.")
    assert found.__name__ == name
    assert issubclass(found, gym.vector.VectorWrapper if where else gym.Wrapper)


@pytest.mark.parametrize("where", THEIRS)
@pytest.mark.parametrize("name", SUBMODULES)
def test_the_submodules_have_the_public_names_of_theirs(where: str, name: str) -> None:
    theirs = importlib.import_module(f"gymnasium.wrappers{where}.{name}")
    ours = importlib.import_module(f"arrayferry.wrappers{where}.{name}")
    for public in theirs.__all__:
        found = getattr(ours, public)
        assert public == "Device" or found.__module__.startswith("arrayferry"), public
    scope: dict[str, Any] = {}
    exec(f"import arrayferry.wrappers{where}.{name}\nfrom arrayferry.wrappers{where} import {name}", scope)
    assert scope[name] is not None


def functions() -> list[tuple[str, str]]:
    return [
        (module, name)
        for module in SUBMODULES
        for name in importlib.import_module(f"gymnasium.wrappers.{module}").__all__
        if name.islower()
    ]


def accepts_all_of(ours: Any, theirs: Any) -> None:
    """Every argument that theirs takes, ours takes: by the same name, in the same place, as optional."""
    mine, wanted = (list(inspect.signature(one).parameters.values()) for one in (ours, theirs))
    for place, parameter in enumerate(wanted):
        assert mine[place].name == parameter.name
        assert mine[place].kind == parameter.kind
        if parameter.default is not parameter.empty:
            assert mine[place].default == parameter.default
    for extra in mine[len(wanted) :]:
        variable = extra.kind in (extra.VAR_KEYWORD, extra.VAR_POSITIONAL)
        assert variable or extra.default is not extra.empty, f"{extra} must not be asked for"


@pytest.mark.parametrize("where", THEIRS)
@pytest.mark.parametrize("name", CONVERSIONS)
def test_the_classes_take_what_theirs_take(where: str, name: str) -> None:
    ours = getattr(importlib.import_module(f"arrayferry.wrappers{where}"), name)
    theirs = getattr(THEIRS[where], name)
    accepts_all_of(ours, theirs)
    for method in ("step", "reset", "render"):
        accepts_all_of(getattr(ours, method), getattr(theirs, method))


@pytest.mark.parametrize(("module", "name"), functions())
def test_the_functions_take_what_theirs_take(module: str, name: str) -> None:
    theirs = inspect.signature(
        getattr(importlib.import_module(f"gymnasium.wrappers.{module}"), name)
    ).parameters
    function = getattr(importlib.import_module(f"arrayferry.wrappers.{module}"), name)
    ours = inspect.signature(function).parameters
    # Theirs are partial objects of one function, whose framework is bound and not meant to be given.
    wanted = [parameter for parameter in theirs if parameter != "xp" or name == "array_conversion"]
    assert [parameter for parameter in ours if parameter in wanted] == wanted
    assert inspect.getdoc(function)


def test_an_unknown_name_is_an_attribute_error_that_says_whose() -> None:
    for module in (arrayferry.wrappers, arrayferry.wrappers.vector):
        with pytest.raises(AttributeError, match="NoSuchWrapper"):
            module.NoSuchWrapper  # noqa: B018
    with pytest.raises(ImportError):
        exec("from arrayferry.wrappers import NoSuchWrapper")
    # Gymnasium says what became of its old names.
    with pytest.raises(AttributeError, match="FrameStackObservation"):
        arrayferry.wrappers.FrameStack  # noqa: B018


def test_a_program_that_was_written_for_gymnasium() -> None:
    """From Gymnasium's documentation, with the import replaced."""
    from arrayferry.wrappers import NumpyToTorch

    env = gym.make("CartPole-v1")
    env = NumpyToTorch(env, device="cpu")
    obs, _ = env.reset(seed=123)
    assert type(obs) is torch.Tensor
    obs, reward, terminated, truncated, info = env.step(torch.tensor(env.action_space.sample()))
    assert type(obs) is torch.Tensor
    assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
    assert info == {}
    assert env.device == "cpu"
    envs = arrayferry.wrappers.vector.ArrayConversion(
        gym.make_vec("CartPole-v1", num_envs=2), env_xp=np, target_xp=torch
    )
    assert type(envs.reset(seed=1)[0]) is torch.Tensor


def test_the_namespaces_of_array_api_compat_are_understood() -> None:
    """Gymnasium's users pass these where they pass modules."""
    compat = pytest.importorskip("array_api_compat")
    importlib.import_module("array_api_compat.torch")
    importlib.import_module("array_api_compat.numpy")
    env = arrayferry.wrappers.ArrayConversion(
        gym.make("CartPole-v1"), env_xp=compat.numpy, target_xp=compat.torch
    )
    assert type(env.reset(seed=1)[0]) is torch.Tensor
    assert type(arrayferry.wrap(gym.make("CartPole-v1"), compat.torch).reset(seed=1)[0]) is torch.Tensor


def test_the_public_names_are_all_there() -> None:
    for module in (arrayferry.wrappers, arrayferry.wrappers.vector):
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None
    pairs = {f"{a}To{b}" for a in ("Numpy", "Torch", "Jax") for b in ("Numpy", "Torch", "Jax") if a != b}
    assert pairs <= set(arrayferry.wrappers.__all__)
    assert pairs <= set(arrayferry.wrappers.vector.__all__)


@pytest.mark.parametrize(
    "name", ["NumpyToJax", "NumpyToTorch", "TorchToNumpy", "TorchToJax", "JaxToNumpy", "JaxToTorch"]
)
@pytest.mark.parametrize("where", THEIRS)
def test_every_pair_says_what_it_is(name: str, where: str) -> None:
    source, target = name.split("To", 1) if name[:2] != "To" else ("Torch", name[7:])
    source, target = source.lower(), target.lower()
    pair = getattr(importlib.import_module(f"arrayferry.wrappers{where}"), name)
    assert source in pair.__doc__.lower()
    assert target in pair.__doc__.lower()
    env: Any = (
        gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
        if where
        else gym.make("CartPole-v1")
    )
    kinds = {"numpy": "ndarray", "torch": "Tensor", "jax": "ArrayImpl"}
    assert type(pair(env).reset(seed=1)[0]).__name__ == kinds[target]
