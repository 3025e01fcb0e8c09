"""Environments that the tests step in compiled code, and rollouts of them."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

jax = pytest.importorskip("jax")
jnp = jax.numpy


def seed_of(key: Any) -> int:
    return int(jax.random.bits(key, dtype="uint32") >> 1)


def rollout(reset: Any, step: Any, key: Any, actions: Any) -> Any:
    @jax.jit
    def run(key: Any, actions: Any) -> Any:
        state, first = reset(key)
        return first, jax.lax.scan(step, state, actions)[1]

    return jax.tree.map(np.asarray, run(key, actions))


def vector(count: int, mode: AutoresetMode, make_one: Any = lambda: gym.make("CartPole-v1")) -> Any:
    return gym.vector.SyncVectorEnv([make_one] * count, autoreset_mode=mode)


class Scripted(gym.Env[Any, Any]):
    """Returns what it is told, in the form of its space."""

    action_space = spaces.Box(-9, 9, (), np.float32)

    def __init__(self, space: spaces.Space[Any], values: Any = None, reward: Any = 1.0) -> None:
        self.observation_space, self.values, self.reward = space, values, reward
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self._observe(), {"count": 0}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        if action == 7:
            raise ValueError("the arm is broken")
        self.count += 1
        return self._observe(), self.reward, self.count % 3 == 0, False, {"count": self.count}

    def _observe(self) -> Any:
        if self.values is not None:
            return self.values(getattr(self, "count", 0))
        return self.observation_space.sample()


BOX = spaces.Box(-100, 100, (2,), np.float32)


def counting(count: int) -> Any:
    return np.full(2, count, np.float32)


def played(step: Any, state: Any, count: int | None = None) -> Any:
    return jax.block_until_ready(step(state, jnp.zeros((count,) if count else ())))


class Halves(gym.vector.VectorEnv[Any, Any, Any]):
    """Steps and resets in two calls, too."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    num_envs, single_observation_space, single_action_space = 2, BOX, Scripted.action_space
    observation_space = spaces.Box(-100, 100, (2, 2), np.float32)
    action_space = spaces.Box(-9, 9, (2,), np.float32)

    def __init__(self) -> None:
        self.count = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.count = 0
        return self.recv()[0], {}

    def step(self, actions: Any) -> Any:
        self.send(actions)
        return self.recv()

    def send(self, actions: Any) -> None:
        self.count += 1

    def recv(self) -> Any:
        obs, flags = np.full((2, 2), self.count, np.float32), np.zeros(2, bool)
        return obs, np.zeros(2), flags, flags, {}

    step_async, step_wait, run_on = send, recv, send

    def async_reset(self) -> None:
        self.count = 0

    reset_async = async_reset
