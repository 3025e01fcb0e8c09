"""Actions arrive as members of the action space: the type, dtype and shape that `sample()` has."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry.errors import SharingError
from helpers import all_spaces
from helpers.compare import KIN, assert_same_form, seen
from helpers.envs import Recorder

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


@pytest.mark.parametrize("name", all_spaces.NAMES)
def test_what_the_environment_gets_is_what_sample_gives(name: str, target: str) -> None:
    space = all_spaces.make(name)
    for _ in range(3):
        sample = exact_everywhere(space.sample())
        got = received(space, arrayferry.convert(sample, target), target)
        assert_same_form(got, sample)
        assert space.contains(got)


@pytest.mark.parametrize("name", all_spaces.NAMES)
def test_a_wider_dtype_is_narrowed_to_the_member_s(name: str) -> None:
    pytest.importorskip("torch")
    space = all_spaces.make(name)
    sample = space.sample()
    assert_same_form(received(space, arrayferry.convert(widened(sample), "torch"), "torch"), sample)


@pytest.mark.parametrize(
    "name", ["box", "discrete", "multi_discrete", "multi_binary", "dict", "tuple", "nested"]
)
def test_python_s_own_numbers_become_members_too(name: str, target: str) -> None:
    space = all_spaces.make(name)
    sample = exact_everywhere(space.sample())

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

    assert_same_form(received(space, plain(sample), target), sample)


def test_whole_numbers_become_floats_where_the_space_has_floats(target: str) -> None:
    space = all_spaces.make("box")
    got = received(space, arrayferry.convert(np.array([1, 0, -1], np.int32), target), target)
    assert_same_form(got, np.array([1, 0, -1], np.float32))
    assert_same_form(received(space, [1, 0, -1], target), np.array([1, 0, -1], np.float32))


def test_the_namedtuple_of_a_graph_stays_one(target: str) -> None:
    space = all_spaces.make("graph")
    sample = space.sample()
    got = received(space, arrayferry.convert(sample, target), target)
    assert type(got) is spaces.GraphInstance
    assert_same_form(got.nodes, sample.nodes)
    assert_same_form(got.edge_links, sample.edge_links)


def test_a_dict_action_in_another_order_arrives_in_the_space_s(target: str) -> None:
    space = all_spaces.make("dict")
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


# ---- copy=False: the environment gets the agent's memory, or an error


BOX2, WIDE = spaces.Box(-1, 1, (2,)), np.zeros(2)
NESTED = spaces.Dict(a=spaces.Tuple((BOX2, spaces.Discrete(3))), b=spaces.MultiBinary(2))
GRAPH = spaces.Graph(BOX2, None)
REFUSED = {
    "Box": (BOX2, WIDE, "action"),
    "integers": (BOX2, np.zeros(2, np.int8), "action"),
    "MultiDiscrete": (spaces.MultiDiscrete([2, 2]), np.zeros(2, np.int32), "action"),
    "MultiBinary": (spaces.MultiBinary(2), np.zeros(2, np.int64), "action"),
    "nested": (NESTED, {"a": (WIDE, 1), "b": np.zeros(2, np.int8)}, 'action["a"][0]'),
    "nested too": (NESTED, {"a": (WIDE.astype("f4"), 1), "b": np.zeros(2, bool)}, 'action["b"]'),
    "Sequence": (spaces.Sequence(BOX2), (WIDE.astype("f4"), WIDE), "action[1]"),
    "stacked Sequence": (spaces.Sequence(BOX2, stack=True), np.zeros((3, 2)), "action"),
    "Graph": (GRAPH, spaces.GraphInstance(np.zeros((3, 2)), None, None), "action[0]"),
    "OneOf": (spaces.OneOf([spaces.Discrete(2), BOX2]), (1, WIDE), "action[1]"),
    "a list of arrays": (spaces.Box(-1, 1, (2, 2)), [WIDE.astype("f4"), WIDE.astype("f4")], "action"),
}


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("name", REFUSED)
def test_an_action_that_would_be_copied_is_refused(name: str, framework: str) -> None:
    pytest.importorskip(framework)
    space, action, where = REFUSED[name]
    base = Recorder(space)
    env = arrayferry.wrap(base, framework, copy=False)
    env.reset()
    with pytest.raises(SharingError, match="copy=None") as caught:
        env.step(arrayferry.convert(action, framework))
    assert caught.value.where == where
    assert not base.actions
    env = arrayferry.wrap(base, framework)
    env.reset()
    env.step(arrayferry.convert(action, framework))


def test_the_actions_of_a_vector_environment_are_shared_or_refused() -> None:
    base = gym.vector.SyncVectorEnv([partial(Recorder, BOX2)] * 2)
    envs = arrayferry.wrap(base, "numpy", copy=False)
    envs.reset()
    with pytest.raises(SharingError, match="action: float64"):
        envs.step(np.zeros((2, 2)))
    envs.step(np.zeros((2, 2), np.float32))


def test_the_actions_of_agents_are_shared_or_refused() -> None:
    pytest.importorskip("pettingzoo")
    from helpers.pettingzoo_envs import ThreeAgents

    base = ThreeAgents()
    base.action_space = lambda agent: BOX2  # type: ignore[method-assign]
    env = arrayferry.wrap(base, "numpy", copy=False)
    env.reset()
    agent = env.agents[-1]
    with pytest.raises(SharingError) as caught:
        env.step({**dict.fromkeys(env.agents, np.zeros(2, np.float32)), agent: WIDE})
    assert caught.value.where == f'action["{agent}"]'


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(3), 1),
        (spaces.Discrete(3), np.int8(1)),
        (spaces.Discrete(3), np.array(1, np.int32)),
        (spaces.Box(-1, 1, ()), 0.5),
        (BOX2, [0.5, 0.25]),
        (spaces.Box(-1, 1, (2, 2)), [[0.5, 0.25], [0.5, 0.25]]),
        (spaces.MultiDiscrete([2, 2]), (0, 1)),
        (NESTED, {"a": ([0.5, 0.25], 2), "b": [0, 1]}),
    ],
    ids=repr,
)
def test_numbers_are_no_memory(space: Any, action: Any) -> None:
    base = Recorder(space)
    env = arrayferry.wrap(base, "numpy", copy=False)
    env.reset()
    env.step(action)
    assert base.actions[0] in space


def test_an_action_that_has_the_dtype_is_shared() -> None:
    torch = pytest.importorskip("torch")
    base = Recorder(spaces.Dict(a=BOX2))
    env = arrayferry.wrap(base, "torch", copy=False)
    env.reset(options={"start": (start := torch.zeros(3))})
    env.step({"a": (action := torch.zeros(2))})
    start[:] = action[:] = 5
    assert base.actions[0]["a"].tolist() == [5, 5]
    assert base.resets[0][1]["start"].tolist() == [5, 5, 5]


def test_options_that_would_be_copied_are_refused() -> None:
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    env = arrayferry.wrap(Recorder(xp=jnp), "torch", env_xp="jax", copy=False)
    with pytest.raises(SharingError) as caught:
        env.reset(options={"deep": [torch.zeros(3, dtype=torch.float64)]})
    assert caught.value.where == 'options["deep"][0]'
