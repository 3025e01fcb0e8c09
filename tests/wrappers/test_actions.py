"""Actions arrive as members of the action space: the type, dtype and shape that `sample()` has."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
import catalogue
from compare import KIN, assert_same_form, seen
from toys import Recorder

WIDER = {
    "float16": "float32",
    "float32": "float64",
    "int32": "int64",
    "uint8": "int64",
    "int8": "int32",
    "int16": "int64",
}


def received(space: spaces.Space[Any], action: Any, target: str) -> Any:
    env = Recorder(space)
    wrapped = arrayferry.wrap(env, target)
    wrapped.reset()
    wrapped.step(action)
    return env.actions[0]


def exact_everywhere(sample: Any) -> Any:
    """The sample with float64 values that float32 holds too: not every framework has 64 bits."""
    if isinstance(sample, dict):
        return {key: exact_everywhere(value) for key, value in sample.items()}
    if isinstance(sample, tuple):
        values = [exact_everywhere(value) for value in sample]
        return type(sample)(*values) if hasattr(sample, "_fields") else tuple(values)
    if isinstance(sample, np.ndarray) and sample.dtype == np.float64:
        return sample.astype(np.float32).astype(np.float64)
    return sample


def widened(sample: Any) -> Any:
    """The sample as a careless policy gives it: in the next wider dtype."""
    if isinstance(sample, dict):
        return {key: widened(value) for key, value in sample.items()}
    if isinstance(sample, tuple):
        values = [widened(value) for value in sample]
        return type(sample)(*values) if hasattr(sample, "_fields") else tuple(values)
    if isinstance(sample, (np.ndarray, np.generic)):
        return np.asarray(sample).astype(WIDER.get(sample.dtype.name, sample.dtype.name))
    return sample


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_what_the_environment_gets_is_what_sample_gives(name: str, target: str) -> None:
    space = catalogue.make(name)
    for _ in range(3):
        sample = exact_everywhere(space.sample())
        got = received(space, arrayferry.convert(sample, target), target)
        assert_same_form(got, sample)
        assert space.contains(got)


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_a_wider_dtype_is_narrowed_to_the_member_s(name: str) -> None:
    pytest.importorskip("torch")
    space = catalogue.make(name)
    sample = space.sample()
    assert_same_form(received(space, arrayferry.convert(widened(sample), "torch"), "torch"), sample)


@pytest.mark.parametrize(
    "name", ["box", "discrete", "multi_discrete", "multi_binary", "dict", "tuple", "nested"]
)
def test_python_s_own_numbers_become_members_too(name: str, target: str) -> None:
    space = catalogue.make(name)
    sample = exact_everywhere(space.sample())

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

    assert_same_form(received(space, plain(sample), target), sample)


def test_whole_numbers_become_floats_where_the_space_has_floats(target: str) -> None:
    space = catalogue.make("box")
    got = received(space, arrayferry.convert(np.array([1, 0, -1], np.int32), target), target)
    assert_same_form(got, np.array([1, 0, -1], np.float32))
    assert_same_form(received(space, [1, 0, -1], target), np.array([1, 0, -1], np.float32))


def test_the_namedtuple_of_a_graph_stays_one(target: str) -> None:
    space = catalogue.make("graph")
    sample = space.sample()
    got = received(space, arrayferry.convert(sample, target), target)
    assert type(got) is spaces.GraphInstance
    assert_same_form(got.nodes, sample.nodes)
    assert_same_form(got.edge_links, sample.edge_links)


def test_a_dict_action_in_another_order_arrives_in_the_space_s(target: str) -> None:
    space = catalogue.make("dict")
    sample = exact_everywhere(space.sample())
    backwards = dict(reversed(arrayferry.convert(sample, target).items()))
    assert_same_form(received(space, backwards, target), sample)


def test_a_jax_environment_gets_jax_arrays_of_the_right_dtype(target: str) -> None:
    jnp = pytest.importorskip("jax.numpy")
    import jax

    for space in (
        spaces.Discrete(4, start=1),
        spaces.Box(-1, 1, (2,), np.float32),
        spaces.MultiDiscrete([3, 4]),
    ):
        env = Recorder(space, xp=jnp)
        wrapped = arrayferry.wrap(env, target)
        wrapped.reset()  # from here on it is known to be JAX's
        space.seed(3)
        sample = space.sample()
        wrapped.step(arrayferry.convert(np.asarray(sample), target))
        (got,) = env.actions
        assert isinstance(got, jax.Array)
        assert got.dtype.name == KIN.get(sample.dtype.name, sample.dtype.name)
        assert not got.weak_type
        np.testing.assert_array_equal(seen(got), sample)


@pytest.mark.parametrize("mode", ["sync"])
def test_batched_actions_of_a_vector_environment(mode: str, target: str) -> None:
    envs = gym.vector.SyncVectorEnv(
        [lambda: Recorder(spaces.Discrete(5)), lambda: Recorder(spaces.Discrete(5))]
    )
    wrapped = arrayferry.wrap(envs, target)
    wrapped.reset(seed=1)
    wrapped.step(arrayferry.convert(np.array([3, 1], np.int32), target))
    got = [env.actions[0] for env in envs.envs]
    assert got == [3, 1]
    assert [type(action) for action in got] == [np.int64, np.int64]
