"""`array_conversion` is extended as the `functools.singledispatch` that it is in Gymnasium."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from arrayferry.errors import NarrowingError, UnsupportedError
from arrayferry.wrappers import ArrayConversion, vector
from arrayferry.wrappers.array_conversion import (
    array_conversion,
    module_name_to_namespace,
    module_namespace,
)
from helpers.compare import array_type_of
from helpers.targets import targets

# Nothing is unregistered: each test registers for types of its own, or in a process of its own.


def make_type(*bases: type) -> Any:
    """Return a new type, for one test."""
    return type("Celsius", bases, {"__init__": lambda self, degrees: setattr(self, "degrees", degrees)})


def to_kelvin(value: Any, xp: Any, device: Any = None) -> Any:
    return xp.asarray(value.degrees + 273.0)


@pytest.mark.parametrize("name", targets())
def test_what_is_registered_counts_in_convert(name: str) -> None:
    Celsius = make_type()
    before = arrayferry.Converter(name)
    kept = Celsius(1.0)
    assert before(kept) is kept
    array_conversion.register(Celsius, to_kelvin)
    xp = module_namespace(name)
    for convert in (
        before,
        arrayferry.Converter(name),
        lambda value: arrayferry.convert(value, name),
        lambda value: array_conversion(value, xp),
        lambda value: array_conversion(value, name),
        lambda value: array_conversion(value, xp=xp, device=None),
    ):
        for found in (convert(Celsius(1.0)), convert({"a": [Celsius(1.0)]})["a"][0]):
            assert isinstance(found, array_type_of(name))
            assert float(arrayferry.convert(found, "numpy")) == 274.0


def test_what_is_registered_counts_in_the_pair_functions() -> None:
    pytest.importorskip("torch")
    from arrayferry.wrappers.numpy_to_torch import numpy_to_torch, torch_to_numpy

    Celsius = make_type()
    array_conversion.register(Celsius, to_kelvin)
    assert type(numpy_to_torch([Celsius(1.0)])[0]).__name__ == "Tensor"
    assert type(torch_to_numpy([Celsius(1.0)])[0]) is np.ndarray


class Weather(gym.Env[Any, Any]):
    """Observations, infos and actions of a type that only its user knows."""

    observation_space = action_space = gym.spaces.Box(-1000, 1000, ())

    def __init__(self, kind: Any) -> None:
        self.kind, self.seen = kind, list[Any]()

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.seen.append(options)
        return self.kind(1.0), {"tomorrow": self.kind(2.0)}

    def step(self, action: Any) -> Any:
        self.seen.append(action)
        return self.kind(3.0), 0.5, False, False, {"tomorrow": self.kind(4.0)}


class ManyWeathers(gym.vector.VectorEnv[Any, Any, Any]):
    num_envs = 1

    def __init__(self, kind: Any) -> None:
        self.one = Weather(kind)
        self.single_observation_space = self.single_action_space = self.one.action_space
        self.observation_space = self.action_space = gym.spaces.Box(-1000, 1000, (1,))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.one.reset(options=options)

    def step(self, actions: Any) -> Any:
        obs, _, _, _, info = self.one.step(actions)
        return obs, np.zeros(1), np.zeros(1, bool), np.zeros(1, bool), info


@pytest.mark.parametrize("is_vector", [False, True], ids=["single", "vector"])
@pytest.mark.parametrize("wrap", ["wrap", "ArrayConversion"])
def test_what_is_registered_counts_in_the_wrappers(is_vector: bool, wrap: str) -> None:
    torch = pytest.importorskip("torch")
    Celsius = make_type()
    env: Any = ManyWeathers(Celsius) if is_vector else Weather(Celsius)
    inner = env.one if is_vector else env
    if wrap == "wrap":
        wrapped: Any = arrayferry.wrap(env, "torch")
    else:
        wrapped = (vector.ArrayConversion if is_vector else ArrayConversion)(env, np, torch)
    array_conversion.register(Celsius, to_kelvin)
    obs, info = wrapped.reset(options={"start": Celsius(0.0)})
    assert (obs, info["tomorrow"]) == (torch.tensor(274.0), torch.tensor(275.0))
    assert inner.seen == [{"start": np.array(273.0)}]
    obs, *_, info = wrapped.step(Celsius(7.0))
    assert (obs, info["tomorrow"]) == (torch.tensor(276.0), torch.tensor(277.0))
    assert inner.seen[-1] == 280.0
    assert isinstance(inner.seen[-1], (np.ndarray, np.floating))


def test_a_registered_function_gets_the_namespace_and_the_device() -> None:
    torch = pytest.importorskip("torch")
    Celsius = make_type()
    got: list[Any] = []
    array_conversion.register(Celsius, lambda value, xp, device=None: got.append((xp, device)))
    for xp in ("torch", torch, module_namespace(torch)):
        array_conversion(Celsius(0.0), xp, "cpu")
    assert got == [(module_namespace(torch), torch.device("cpu"))] * 3
    array_conversion(Celsius(0.0), np)
    assert got[-1] == (module_namespace(np), None)


def test_register_has_all_the_forms_of_singledispatch() -> None:
    One, Two, Three, Four, Five = (make_type() for _ in range(5))

    @array_conversion.register(One)
    @array_conversion.register(Two)
    def by_class(value: Any, xp: Any, device: Any = None) -> Any:
        return "by class"

    def by_annotation(value: Any, xp: Any, device: Any = None) -> Any:
        return "by annotation"

    by_annotation.__annotations__["value"] = Three
    assert array_conversion.register(by_annotation) is by_annotation
    assert array_conversion.register(Four, by_class) is by_class
    assert arrayferry.convert([One(1), Two(1), Three(1), Four(1)], "numpy") == [
        "by class",
        "by class",
        "by annotation",
        "by class",
    ]
    array_conversion.register(One)  # a decorator that decorates nothing registers nothing
    assert array_conversion.dispatch(One) is by_class
    assert array_conversion.registry[Three] is by_annotation
    assert Five not in array_conversion.registry
    assert array_conversion.dispatch(Five) is array_conversion.registry[object]
    with pytest.raises(TypeError, match="Invalid first argument to"):
        array_conversion.register("Celsius")


def test_a_function_registered_for_a_base_class_is_found_and_replaced() -> None:
    Base = make_type()
    Derived = make_type(Base)
    array_conversion.register(Base, lambda value, xp, device=None: "base")
    assert arrayferry.convert(Derived(1.0), "numpy") == "base"
    array_conversion.register(Derived, lambda value, xp, device=None: "derived")
    assert arrayferry.convert([Base(1.0), Derived(1.0)], "numpy") == ["base", "derived"]
    array_conversion.register(Base, lambda value, xp, device=None: "new base")
    assert arrayferry.convert([Base(1.0), Derived(1.0)], "numpy") == ["new base", "derived"]


def test_register_leaf_comes_first() -> None:
    Celsius = make_type()
    array_conversion.register(Celsius, lambda value, xp, device=None: "registered")
    arrayferry.register_leaf(Celsius, lambda value, converter: "leaf")
    assert arrayferry.convert(Celsius(1.0), "numpy") == "leaf"


def test_what_is_registered_on_gymnasiums_own_function_is_not_ours() -> None:
    theirs = pytest.importorskip("gymnasium.wrappers.array_conversion").array_conversion
    Celsius = make_type()
    theirs.register(Celsius, to_kelvin)
    value = Celsius(1.0)
    assert arrayferry.convert(value, "numpy") is value
    assert Celsius not in array_conversion.registry
    assert theirs is not array_conversion


def test_what_a_registered_function_raises_is_told_with_the_path() -> None:
    Broken, Wide = make_type(), make_type()

    def fail(value: Any, xp: Any, device: Any = None) -> Any:
        raise KeyError("degrees")

    array_conversion.register(Broken, fail)
    with pytest.raises(UnsupportedError, match=r'^value\["a"\]\[1\]: .*Celsius raised: KeyError') as caught:
        arrayferry.convert({"a": [1, Broken(1.0)]}, "numpy")
    assert isinstance(caught.value.__cause__, KeyError)
    array_conversion.register(
        Wide, lambda value, xp, device=None: array_conversion({"b": value.degrees}, xp, device)
    )
    with pytest.raises(NarrowingError, match=r'^value\["a"\]\["b"\]: '):
        arrayferry.convert({"a": Wide(2**80)}, "numpy")


def test_the_function_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(array_conversion)) is array_conversion


PROGRAM = """
import collections, decimal, numbers
from collections.abc import Mapping
import numpy as np
import arrayferry
from arrayferry.wrappers.array_conversion import array_conversion
import gymnasium as gym

converter = arrayferry.Converter("numpy")
assert converter([1, {"a": 2}])[1]["a"].dtype == np.int64
"""

ABCS = (
    PROGRAM
    + """
@array_conversion.register(numbers.Number)
def _(value, xp, device=None):
    return ("number", value)

assert converter([1, 2.5, 3j, True, "text", None]) == [
    ("number", 1), ("number", 2.5), ("number", 3j), ("number", True), "text", None]
assert converter([np.float32(1)]) == [("number", 1)]
assert converter(decimal.Decimal(1)) == ("number", 1)
assert type(converter(np.zeros(3))) is np.ndarray

@array_conversion.register(Mapping)
def _(value, xp, device=None):
    return [(key, array_conversion(one, xp, device)) for key, one in value.items()]

assert converter([{"a": 1}]) == [[("a", ("number", 1))]]
assert converter(collections.OrderedDict(a={"b": "c"})) == [("a", [("b", "c")])]

@array_conversion.register(collections.OrderedDict)
def _(value, xp, device=None):
    return "ordered"

assert converter([collections.OrderedDict(), {}]) == ["ordered", []]

class Env(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return 1, {"a": 2}
    def step(self, action):
        return 1, 0.5, False, True, {"a": 2}

env = arrayferry.wrap(Env(), "numpy")
assert env.reset() == (("number", 1), [("a", ("number", 2))])
assert env.step(1) == (("number", 1), 0.5, False, True, [("a", ("number", 2))])
"""
)

CALLS_WHAT_WAS_THERE = (
    PROGRAM
    + """
arrays, mappings = array_conversion.dispatch(np.ndarray), array_conversion.dispatch(dict)
assert arrays is mappings is array_conversion.registry[object]

@array_conversion.register(np.ndarray)
def _(value, xp, device=None):
    return arrays(value, xp, device) + 1

@array_conversion.register(Mapping)
def _(value, xp, device=None):
    return {**mappings(value, xp, device), "seen": "yes"}

assert converter([np.zeros(1)]) == [1]
found = converter({"a": {"b": np.zeros(1), "d": 1}})
assert found["seen"] == found["a"]["seen"] == "yes"
assert found["a"]["b"] == found["a"]["d"] == 1
assert arrays(np.zeros(1), np) == 0
assert arrays("text", np) == "text"
assert arrays(np.array([None, "text"], object), np).tolist() == [None, "text"]
assert arrays(np.float32(2), np) == 2
try:
    converter({"a": [{"b": 2 ** 80}]})
except OverflowError as error:
    assert error.where == 'value["a"][0]["b"]', error.where
else:
    raise AssertionError
try:
    mappings({"b": [2 ** 80]}, np)
except OverflowError as error:
    assert error.where == 'value["b"][0]', error.where
"""
)


@pytest.mark.parametrize("pure", ["", "1"], ids=["C", "Python"])
@pytest.mark.parametrize("program", [ABCS, CALLS_WHAT_WAS_THERE], ids=["ABCs", "what was there"])
def test_in_a_process_of_its_own(run_python: Any, program: str, pure: str) -> None:
    run_python(program, ARRAYFERRY_PURE_PYTHON=pure)


# ---- namespaces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", targets())
def test_the_namespace_of_every_framework_means_that_framework(name: str) -> None:
    framework = arrayferry.Converter(name).framework
    xp = module_namespace(name)
    assert xp is module_namespace(framework.load()) is module_namespace(xp)
    assert xp is module_name_to_namespace(framework.modules[0])
    assert arrayferry.Converter(xp).framework is framework
    assert isinstance(array_conversion(np.zeros(2, np.float32), xp), array_type_of(name))


@pytest.mark.parametrize("name", ["numpy", "torch", "jax.numpy", "array_api_strict"])
def test_the_namespace_is_the_one_that_gymnasium_finds(name: str) -> None:
    theirs = pytest.importorskip("gymnasium.wrappers.array_conversion")
    module = pytest.importorskip(name)
    assert module_namespace(module) is theirs.module_namespace(module)
    assert module_name_to_namespace(name) is theirs.module_name_to_namespace(name)


def test_a_module_that_makes_no_arrays_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="'os' is not an array framework"):
        module_name_to_namespace("os")
    with pytest.raises(ImportError):
        module_name_to_namespace("no_such_module")
