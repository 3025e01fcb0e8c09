"""`spaces="target"`: the spaces of a wrapped environment give and take the agent's arrays, on its device."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry import wrappers
from helpers import all_spaces
from helpers.compare import assert_array, assert_crossed, assert_same_form, seen
from helpers.envs import Counter, Recorder


def test_by_default_the_spaces_are_the_environment_s_own(target: str) -> None:
    base = Counter()
    env = arrayferry.wrap(base, target)
    assert env.action_space is base.action_space
    assert env.observation_space is base.observation_space
    envs = gym.vector.SyncVectorEnv([Counter, Counter])
    wrapped = arrayferry.wrap(envs, target, spaces="env")
    for name in ("action_space", "observation_space", "single_action_space", "single_observation_space"):
        assert getattr(wrapped, name) is getattr(envs, name)


def test_samples_step_the_environment(target: str, array_type: type) -> None:
    env = arrayferry.wrap(gym.make("CartPole-v1"), target, spaces="target")
    obs, _ = env.reset(seed=1)
    assert obs in env.observation_space
    assert isinstance(env.action_space, spaces.Discrete)
    assert isinstance(env.observation_space, spaces.Box)
    assert (env.action_space.n, env.observation_space.shape) == (2, (4,))
    for _ in range(3):
        action = env.action_space.sample()
        assert isinstance(action, array_type)
        assert action in env.action_space
        obs, *_ = env.step(action)
        assert isinstance(env.observation_space.sample(), array_type)
        assert obs in env.observation_space


@pytest.mark.parametrize("name", list(all_spaces.SINGLE))
def test_samples_arrive_as_the_original_space_s_samples(name: str, target: str) -> None:
    base = Recorder(all_spaces.make(name))
    env = arrayferry.wrap(base, target, spaces="target")
    env.reset()
    env.action_space.seed(9)
    env.step(env.action_space.sample())
    space = all_spaces.make(name)
    space.seed(9)
    want = space.sample()
    assert space.contains(base.actions[0])
    assert_crossed(arrayferry.convert(base.actions[0], target), want, target)


def test_an_action_space_seed_repeats_an_episode(target: str) -> None:
    def episode() -> list[Any]:
        env = arrayferry.wrap(gym.make("CartPole-v1"), target, spaces="target")
        env.action_space.seed(3)
        env.reset(seed=3)
        return [env.step(env.action_space.sample())[0] for _ in range(5)]

    assert_same_form(episode(), episode())


def test_all_four_spaces_of_a_vector_environment(target: str, array_type: type) -> None:
    envs = gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    wrapped = arrayferry.wrap(envs, target, spaces="target")
    obs, _ = wrapped.reset(seed=1)
    assert obs in wrapped.observation_space
    actions = wrapped.action_space.sample()
    assert isinstance(actions, array_type)
    assert tuple(actions.shape) == (3,)
    assert wrapped.step(actions)[0] in wrapped.observation_space
    assert tuple(wrapped.single_action_space.sample().shape) == ()
    assert isinstance(wrapped.single_observation_space.sample(), array_type)
    assert isinstance(wrapped.action_space, spaces.MultiDiscrete)


def test_samples_are_on_the_device() -> None:
    strict = pytest.importorskip("array_api_strict")
    there = strict.Device("device1")
    env = arrayferry.wrap(Recorder(all_spaces.make("nested")), strict, there, spaces="target")
    sample = env.action_space.sample()
    leaves = [sample["a"][0]["b"], sample["a"][0]["c"], sample["a"][1], sample["d"]]
    assert [leaf.device for leaf in leaves] == [there] * 4
    assert env.observation_space.sample().device == there
    envs = arrayferry.wrap(gym.vector.SyncVectorEnv([Counter, Counter]), strict, "device1", spaces="target")
    assert envs.single_observation_space.sample().device == there


def test_a_tensor_without_values_is_no_member() -> None:
    pytest.importorskip("torch")
    env = wrappers.NumpyToTorch(Recorder(), spaces="target")
    assert env.observation_space.sample().to("meta") not in env.observation_space


def test_observation_samples_have_the_dtypes_asked_for_and_actions_do_not() -> None:
    torch = pytest.importorskip("torch")
    env = arrayferry.wrap(Recorder(), "torch", spaces="target", dtypes={"float32": "float64"})
    obs, _ = env.reset()
    assert env.observation_space.sample().dtype == torch.float64
    assert env.action_space.sample().dtype == torch.float32
    assert obs in env.observation_space


def test_a_mask_of_an_info_can_be_used_as_it_is(target: str) -> None:
    """As Taxi gives it: `env.action_space.sample(info["action_mask"])`."""
    bare = gym.make("Taxi-v4")
    env = arrayferry.wrap(gym.make("Taxi-v4"), target, spaces="target")
    _, want = bare.reset(seed=4)
    _, info = env.reset(seed=4)
    assert_array(info["action_mask"], want["action_mask"], target)
    allowed = set(np.flatnonzero(want["action_mask"]).tolist())
    assert 0 < len(allowed) < 6
    drawn = {int(seen(env.action_space.sample(info["action_mask"]))) for _ in range(40)}
    assert drawn == allowed


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Blackjack-v1", "Taxi-v4", "Pendulum-v1"])
def test_observations_of_every_kind_are_in_the_space(name: str, target: str) -> None:
    env = arrayferry.wrap(gym.make(name), target, spaces="target")
    obs, _ = env.reset(seed=1)
    assert obs in env.observation_space
    assert env.step(env.action_space.sample())[0] in env.observation_space


def test_nested_wrappers_each_have_their_own_spaces() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    inner = arrayferry.wrap(Counter(), "jax", spaces="target")
    assert isinstance(inner.action_space.sample(), jax.Array)
    outer = arrayferry.wrap(inner, "torch")
    outer.reset()
    assert int(outer.step(torch.tensor(1))[0][0]) == 1
    both = arrayferry.wrap(arrayferry.wrap(Counter(), "jax", spaces="target"), "torch", spaces="target")
    obs, _ = both.reset()
    action = both.action_space.sample()
    assert isinstance(action, torch.Tensor)
    assert action in both.action_space
    assert obs in both.observation_space
    both.step(action)


def test_gymnasium_s_wrappers_read_such_spaces(target: str) -> None:
    env = arrayferry.wrap(Recorder(), target, spaces="target")
    assert gym.spaces.utils.flatdim(env.action_space) == 3
    assert gym.spaces.flatten_space(env.observation_space) == Recorder().observation_space
    clipped = gym.wrappers.TransformObservation(env, lambda obs: obs, env.observation_space)
    assert clipped.observation_space == Recorder().observation_space
    assert gym.vector.utils.batch_space(env.action_space, 2).shape == (2, 3)


# ---- the space is the one that the environment has at that moment


def test_spaces_that_the_environment_replaces_are_followed(target: str, array_type: type) -> None:
    base = Recorder(spaces.Discrete(2))
    env = arrayferry.wrap(gym.wrappers.TimeLimit(base, 99), target, spaces="target")
    outer = arrayferry.wrap(env, "numpy", spaces="target")
    env.reset()
    assert env.action_space is env.action_space
    base.action_space = spaces.Discrete(9, start=100)
    base.observation_space = spaces.Box(5, 6, (2,))
    assert (env.action_space.n, env.action_space.start, env.observation_space.shape) == (9, 100, (2,))
    assert isinstance(env.action_space.sample(), array_type)
    env.step(env.action_space.sample())
    assert base.actions[-1] >= 100
    assert outer.action_space == base.action_space
    outer.step(outer.action_space.sample())
    assert base.actions[-1] in base.action_space
    assert arrayferry.convert(np.full(2, 5.5, np.float32), target) in env.observation_space


def test_spaces_that_a_vector_environment_replaces_are_followed(target: str) -> None:
    base = gym.vector.SyncVectorEnv([Counter, Counter])
    envs = arrayferry.wrap(base, target, spaces="target")
    assert envs.action_space.shape == (2,)
    base.single_action_space, base.action_space = spaces.Discrete(7), spaces.MultiDiscrete([7, 7])
    base.single_observation_space, base.observation_space = spaces.Box(0, 9, (1,)), spaces.Box(0, 9, (2, 1))
    assert envs.single_action_space.n == 7
    assert envs.action_space.nvec.tolist() == [7, 7]
    assert (envs.single_observation_space.shape, envs.observation_space.shape) == ((1,), (2, 1))
    assert tuple(envs.observation_space.sample().shape) == (2, 1)


def test_a_space_that_is_made_on_each_request_keeps_its_seed() -> None:
    class Anew(Recorder):
        count = 1000
        action_space = property(lambda self: spaces.Discrete(self.count), lambda self, space: None)  # type: ignore[assignment]

    env = arrayferry.wrap(Anew(), "numpy", spaces="target")
    env.action_space.seed(3)
    first = [int(env.action_space.sample()) for _ in range(5)]
    env.action_space.seed(3)
    assert [int(env.action_space.sample()) for _ in range(5)] == first
    env.unwrapped.count = 3
    assert env.action_space.n == 3


def test_an_equal_space_with_another_seed_is_another_space() -> None:
    base = Recorder(spaces.Discrete(1000, seed=1))
    env = arrayferry.wrap(base, "numpy", spaces="target")
    env.action_space.sample()
    base.action_space = spaces.Discrete(1000, seed=5)
    assert env.action_space.sample() == spaces.Discrete(1000, seed=5).sample()


def test_a_space_that_somebody_sets_on_the_wrapper_stays() -> None:
    for kind in ("env", "target"):
        env = arrayferry.wrap(Recorder(), "torch" if kind == "env" else "numpy", spaces=kind)
        env.action_space = mine = spaces.Discrete(3)
        assert env.action_space is mine


def test_copies_follow_their_own_environment() -> None:
    env = arrayferry.wrap(Recorder(spaces.Discrete(2)), "numpy", spaces="target")
    assert env.action_space.n == 2
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        known = twin.action_space
        twin.unwrapped.action_space.seed(4)
        assert known.sample() == spaces.Discrete(2, seed=4).sample()
        twin.unwrapped.action_space = spaces.Discrete(7)
        assert (twin.action_space.n, env.action_space.n) == (7, 2)


def test_the_spaces_of_agents_are_followed() -> None:
    pytest.importorskip("pettingzoo")
    from helpers.pettingzoo_envs import ThreeAgents

    base = ThreeAgents()
    env = arrayferry.wrap(base, "numpy", spaces="target")
    agent = base.possible_agents[0]
    before = env.action_space(agent)
    assert env.action_space(agent) is before
    base.action_space = lambda agent: new  # type: ignore[method-assign]
    new = spaces.Discrete(77)
    assert env.action_space(agent).n == 77
