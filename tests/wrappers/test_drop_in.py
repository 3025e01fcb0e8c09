"""Replacing `gymnasium.wrappers` by `arrayferry.wrappers` in an import keeps a program working."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from typing import Any

import gymnasium as gym
import gymnasium.wrappers
import numpy as np
import pytest

import arrayferry.wrappers
from helpers.compare import public_names

torch = pytest.importorskip("torch")
pytest.importorskip("jax")

THEIRS = {"": gymnasium.wrappers, ".vector": gymnasium.wrappers.vector}
NAMES = [(where, name) for where, module in THEIRS.items() for name in module.__all__]
CONVERSIONS = ["ArrayConversion", "JaxToNumpy", "JaxToTorch", "NumpyToTorch"]
SUBMODULES = ["array_conversion", "jax_to_numpy", "jax_to_torch", "numpy_to_torch"]
if "ArrayConversion" not in gymnasium.wrappers.__all__:  # new in Gymnasium 1.2
    del CONVERSIONS[0], SUBMODULES[0]


@pytest.mark.parametrize(("where", "name"), NAMES)
def test_every_name_is_there(where: str, name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"from arrayferry.wrappers{where} import {name} as found", scope)
    module = importlib.import_module(f"arrayferry.wrappers{where}")
    assert scope["found"] is getattr(module, name)
    if name not in (*CONVERSIONS, "vector"):
        assert is_or_subclasses(scope["found"], getattr(THEIRS[where], name))
        assert scope["found"] is getattr(importlib.import_module(twin_of(scope["found"])), name)


def is_or_subclasses(ours: Any, theirs: Any) -> bool:
    """What is Gymnasium's stays so, or has a subclass of ours by the same name."""
    return ours is theirs or (issubclass(ours, theirs) and ours.__module__ == twin_of(theirs))


def twin_of(found: Any) -> str:
    return str(found.__module__).replace("gymnasium", "arrayferry")


@pytest.mark.parametrize(("where", "name"), [(where, name) for where, name in NAMES if name != "vector"])
def test_every_class_takes_what_theirs_takes(where: str, name: str) -> None:
    ours = getattr(importlib.import_module(f"arrayferry.wrappers{where}"), name)
    accepts_all_of(ours, getattr(THEIRS[where], name))


@pytest.mark.parametrize("where", THEIRS)
@pytest.mark.parametrize("name", CONVERSIONS)
def test_the_conversions_are_ours(where: str, name: str) -> None:
    found = getattr(importlib.import_module(f"arrayferry.wrappers{where}"), name)
    assert found.__module__.startswith("arrayferry.")
    assert found.__name__ == name
    assert issubclass(found, gym.vector.VectorWrapper if where else gym.Wrapper)


TWINS = [found.name for found in pkgutil.walk_packages(gymnasium.wrappers.__path__, "gymnasium.wrappers.")]


@pytest.mark.parametrize("theirs", TWINS)
def test_every_module_has_a_twin_with_its_public_names(theirs: str) -> None:
    module = importlib.import_module(theirs)
    name = theirs.replace("gymnasium", "arrayferry")
    scope: dict[str, Any] = {}
    exec(f"import {name}\nfrom {name} import {', '.join(public_names(module))}", scope)
    exec(f"from {name.rpartition('.')[0]} import {name.rpartition('.')[2]} as found", scope)
    assert scope["found"] is importlib.import_module(name) is eval(name, scope)
    ours = set(SUBMODULES) & set(theirs.split("."))
    for one in public_names(module) - {"Device", *CONVERSIONS}:
        found, wanted = scope[one], getattr(module, one)
        assert found is not wanted if ours else is_or_subclasses(found, wanted), one


@pytest.mark.parametrize("theirs", TWINS)
def test_every_twin_is_a_file_that_editors_find(theirs: str) -> None:
    found = importlib.util.find_spec(theirs.replace("gymnasium", "arrayferry"))
    assert found is not None
    assert found.origin is not None
    assert "arrayferry" in found.origin


@pytest.mark.parametrize("where", [*THEIRS, ".common", ".utils", ".vector.rendering"])
def test_import_star_gives_the_names_of_theirs_and_ours(where: str) -> None:
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    exec(f"from arrayferry.wrappers{where} import *", ours)
    exec(f"from gymnasium.wrappers{where} import *", theirs)
    assert set(theirs) <= set(ours)
    added = {"wrap", "NumpyToJax", "TorchToJax", "TorchToNumpy"}
    added |= {"@py_builtins", "@pytest_ar"}  # pytest's, in modules whose assertions it rewrites
    assert set(ours) - set(theirs) <= added | ({"ArrayConversion"} - set(CONVERSIONS))


def test_the_names_that_are_only_for_annotations_are_there() -> None:
    theirs = pytest.importorskip("gymnasium.wrappers.array_conversion")
    ours = arrayferry.wrappers.array_conversion
    assert (ours.Array, ours.Device) == (theirs.Array, theirs.Device) == (Any, Any)


def test_what_is_listed_is_in_dir() -> None:
    for module in (arrayferry.wrappers, arrayferry.wrappers.vector):
        assert {*module.__all__, "pairs"} <= set(dir(module))


NEWER_GYMNASIUM = """
import sys

import gymnasium.wrappers

gymnasium.wrappers.__path__.append({folder!r})
gymnasium.wrappers.__all__ += ["Added", "New"]
gymnasium.wrappers.Added = type("Added", (), {{"__module__": "gymnasium.wrappers"}})
from gymnasium.wrappers.new import New
gymnasium.wrappers.New = New
gymnasium.wrappers.transform_reward.Added = type("Added", (), {{"__module__": "gymnasium.wrappers.common"}})

import arrayferry.wrappers
from arrayferry.wrappers import *

assert Added is gymnasium.wrappers.Added
assert New is gymnasium.wrappers.new.New
assert arrayferry.wrappers.new is gymnasium.wrappers.new
gymnasium.wrappers.Added = gymnasium.wrappers.transform_reward.Added
assert arrayferry.wrappers.Added is gymnasium.wrappers.Added
assert "jax" not in sys.modules and "torch" not in sys.modules
try:
    import arrayferry.wrappers.no_such_module
except ModuleNotFoundError as error:
    assert "arrayferry.wrappers.no_such_module" in str(error)
else:
    raise AssertionError
"""


def test_names_of_a_newer_gymnasium_are_found(run_python: Any, tmp_path: Any) -> None:
    (tmp_path / "new.py").write_text("__all__ = ['New']\nclass New: ...")
    run_python(NEWER_GYMNASIUM.format(folder=str(tmp_path)))


def test_a_conversion_module_is_ours_even_if_theirs_was_imported_first(run_python: Any) -> None:
    run_python(
        "import gymnasium.wrappers.jax_to_numpy\n"
        "import gymnasium.wrappers.vector.jax_to_numpy\n"
        "import arrayferry.wrappers\n"
        "for package in (arrayferry.wrappers, arrayferry.wrappers.vector):\n"
        "    assert package.jax_to_numpy.__name__ == package.__name__ + '.jax_to_numpy'\n"
        "    assert package.common.__name__ == package.__name__ + '.common'\n"
    )


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
def test_the_methods_take_what_theirs_take(where: str, name: str) -> None:
    ours = getattr(importlib.import_module(f"arrayferry.wrappers{where}"), name)
    theirs = getattr(THEIRS[where], name)
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
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'NoSuch"):
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
