"""Gymnasium's own tests of its conversion wrappers, pointed at these, for every pair of frameworks.

From Gymnasium (MIT) at 3f0476a8c, test_array_conversion.py in tests/wrappers and tests/wrappers/vector.
With dask and sparse installed, Gymnasium itself passes 216 of its 432 cases.
"""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from array_api_compat import array_namespace

import arrayferry
from arrayferry.wrappers import ArrayConversion, vector
from arrayferry.wrappers.array_conversion import array_conversion
from helpers.compare import array_type_of, assert_same_form, seen
from helpers.targets import targets

# Where a framework's functions are.
MODULES = {"jax": "jax.numpy", "dask": "dask.array", "mlx": "mlx.core"}


def module(name: str) -> Any:
    return pytest.importorskip(MODULES.get(name, name))


PAIRS = [(one, other) for one in targets() for other in targets() if one != other]
every_pair = pytest.mark.parametrize(("env_name", "agent_name"), PAIRS)


class ExampleNamedTuple(NamedTuple):
    a: Any
    b: Any


def values() -> list[Any]:
    """In dtypes that all frameworks have, so that they come back as they were."""
    f, i = np.float32, np.int32
    return [
        np.array(1.0, f),
        np.array(1, np.uint8),
        np.array([1, 2], i),
        np.array([[1], [2]], i),
        (np.array(3.0, f), np.array(4, i)),
        [np.array(3.0, f), np.array(4, i)],
        {"a": np.array(6.0, f), "b": np.array(7, i)},
        {"a": (np.array(1, i), np.array(2.0, f), np.array([3, 4], i)), "b": {"c": np.array(5, i)}},
        ExampleNamedTuple(a=np.array([1, 2], i), b=np.array([1.0, 2.0], f)),
        None,
    ]


@every_pair
def test_roundtripping(env_name: str, agent_name: str) -> None:
    for value in values():
        source = array_conversion(value, xp=module(env_name))
        there = array_conversion(source, xp=module(agent_name))
        assert_same_form(array_conversion(there, xp=module(env_name)), source)
        assert_same_form(arrayferry.convert(there, "numpy"), value)


@every_pair
def test_python_numbers_become_arrays(env_name: str, agent_name: str) -> None:
    back = array_conversion(
        array_conversion({"a": 6.0, "b": (7, [2])}, xp=module(agent_name)), xp=module(env_name)
    )
    kind = array_type_of(env_name)
    assert all(isinstance(leaf, kind) for leaf in (back["a"], back["b"][0], back["b"][1][0]))
    assert [float(seen(leaf)) for leaf in (back["a"], back["b"][0], back["b"][1][0])] == [6.0, 7.0, 2.0]


class GenericTestEnv(gym.Env[Any, Any]):
    """An environment of any framework, whose action space is not told. (So are Gymnasium's.)"""

    def __init__(self, name: str) -> None:
        self.name = name
        self.observation_space = self.action_space = gym.spaces.Box(-10, 10, (7,))

    def of(self, values: Any, dtype: Any = np.float32) -> Any:
        return arrayferry.convert(np.asarray(values, dtype), self.name)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.of([1.0, 2.0, 3.0]), {"data": self.of([1, 2, 3], np.int32)}

    def step(self, action: Any) -> Any:
        assert isinstance(action, array_type_of(self.name)), type(action)
        done = self.of(True, np.bool_), self.of(False, np.bool_)
        return self.of([1, 2, 3], np.int32), self.of(5.0), *done, {"data": self.of([1.0, 2.0])}

    def render(self) -> Any:
        return None


@every_pair
def test_array_conversion_wrapper(env_name: str, agent_name: str) -> None:
    kind = array_type_of(agent_name)
    wrapped = ArrayConversion(GenericTestEnv(env_name), env_xp=module(env_name), target_xp=module(agent_name))
    obs, info = wrapped.reset()
    assert isinstance(obs, kind)
    assert isinstance(info["data"], kind)
    obs, reward, terminated, truncated, info = wrapped.step(
        arrayferry.convert(np.array([1, 2], np.int32), agent_name)
    )
    assert isinstance(obs, kind)
    assert isinstance(reward, float)
    assert isinstance(terminated, bool)
    assert isinstance(truncated, bool)
    assert isinstance(info["data"], kind)
    assert (reward, terminated, truncated) == (5.0, True, False)
    if agent_name != "mlx":  # which array-api-compat does not know
        assert array_namespace(obs) is array_namespace(arrayferry.convert(np.zeros(1), agent_name))
    assert wrapped.render() is None
    wrapped = ArrayConversion(
        gym.make("CartPole-v1", disable_env_checker=True), module(env_name), module(agent_name)
    )
    assert isinstance(pickle.loads(pickle.dumps(wrapped)), ArrayConversion)


class GenericTestVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    def __init__(self, name: str) -> None:
        self.one = GenericTestEnv(name)
        self.num_envs = 3
        self.metadata = {}
        self.single_action_space = self.single_observation_space = self.one.action_space
        self.action_space = self.observation_space = gym.spaces.Box(-10, 10, (3, 7))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.one.of([[1.0, 2.0, 3.0]] * 3), {"data": self.one.of([[1, 2, 3]] * 3, np.int32)}

    def step(self, actions: Any) -> Any:
        assert isinstance(actions, array_type_of(self.one.name)), type(actions)
        of = self.one.of
        dones = of([False] * 3, np.bool_), of([False] * 3, np.bool_)
        return of([[1, 2, 3]] * 3, np.int32), of([5.0] * 3), *dones, {"data": of([[1.0, 2.0]] * 3)}

    def render(self) -> Any:
        return None


@every_pair
def test_vector_array_conversion_wrapper(env_name: str, agent_name: str) -> None:
    kind = array_type_of(agent_name)
    env = GenericTestVectorEnv(env_name)
    for wrapped in (
        vector.ArrayConversion(env, env_xp=module(env_name), target_xp=module(agent_name)),
        arrayferry.wrap(env, agent_name),
    ):
        obs, info = wrapped.reset()
        assert isinstance(obs, kind)
        assert isinstance(info["data"], kind)
        obs, reward, terminated, truncated, info = wrapped.step(
            arrayferry.convert(np.array([1, 2], np.int32), agent_name)
        )
        assert all(isinstance(item, kind) for item in (obs, reward, terminated, truncated, info["data"]))
        assert seen(terminated).dtype == seen(truncated).dtype == np.bool_
        assert seen(reward).tolist() == [5.0] * 3
        assert wrapped.render() is None
