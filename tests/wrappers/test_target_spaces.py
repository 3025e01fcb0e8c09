"""`spaces="target"`: the spaces of a wrapped environment give and take the agent's arrays, on its device."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
import catalogue
from arrayferry import wrappers
from compare import assert_array, assert_crossed, assert_same_form, seen
from toys import Counter, Recorder


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


@pytest.mark.parametrize("name", list(catalogue.SINGLE))
def test_samples_arrive_as_the_original_space_s_samples(name: str, target: str) -> None:
    base = Recorder(catalogue.make(name))
    env = arrayferry.wrap(base, target, spaces="target")
    env.reset()
    env.action_space.seed(9)
    env.step(env.action_space.sample())
    space = catalogue.make(name)
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
    env = arrayferry.wrap(Recorder(catalogue.make("nested")), strict, there, spaces="target")
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
