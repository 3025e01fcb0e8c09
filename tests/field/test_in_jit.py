"""EnvPool and compiled code: it has its own functions for that, which `in_jit` names."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.filterwarnings("ignore")


def make(task: str = "CartPole-v1", **options: Any) -> Any:
    envpool = pytest.importorskip("envpool")
    return envpool.make(task, env_type="gymnasium", seed=3, **{"num_envs": 4, **options})


@pytest.mark.parametrize("options", [{}, {"batch_size": 2}], ids=str)
def test_envpool_is_refused_and_its_own_functions_are_named(options):
    with pytest.raises(arrayferry.FerryError, match=r"has its own functions[\s\S]*env\.xla\(\)"):
        arrayferry.in_jit(make(**options))


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "HalfCheetah-v5"])
def test_envpool_in_a_wrapper_equals_the_loop(task):
    bare, env = make(task), make(task)
    space = bare.single_action_space
    space.seed(1)
    actions = np.stack([[space.sample() for _ in range(4)] for _ in range(100)])
    actions = actions.astype(np.float32) if actions.dtype.kind == "f" else actions
    reset, step = arrayferry.in_jit(gym.wrappers.vector.TransformReward(env, lambda reward: 2 * reward))

    @jax.jit
    def rollout(key: Any, actions: Any) -> Any:
        state, first = reset(key)
        return first, jax.lax.scan(step, state, actions)[1]

    first, values = rollout(jax.random.key(0), actions)
    assert np.array_equal(first, bare.reset()[0].astype(first.dtype))
    for index, action in enumerate(actions):
        obs, reward, *flags, _ = bare.step(action.astype(space.dtype))
        for value, expected in zip(values, [obs, 2 * reward, *flags]):
            assert np.array_equal(value[index], expected.astype(value.dtype))
