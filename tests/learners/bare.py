"""Trajectories of bare environments, which those of the learners' own must equal."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from arrayferry import convert

COUNT = 3  # environments in a vector


def cart_pole() -> Any:
    """Return an environment that is written in JAX."""
    return gym.make("phys2d/CartPole-v1")


def cart_poles(mode: AutoresetMode = AutoresetMode.SAME_STEP) -> Any:
    return SyncVectorEnv([lambda: gym.make("CartPole-v1")] * COUNT, autoreset_mode=mode)


def actions(steps: int, count: int | None = None) -> Any:
    """Return actions for CartPole that end episodes soon, but not all at once."""
    shape = steps if count is None else (steps, count)
    return (np.random.default_rng(7).random(shape) < 0.8).astype(np.int64)


def trajectory(env: Any, moves: Any, seed: int) -> list[tuple[Any, ...]]:
    """Return the first observation in a tuple, and (obs, reward, terminated, truncated) of each step.

    An observation that ends an episode is the last one of it, though the environment may have been reset.
    """
    obs, _ = env.reset(seed=seed)
    found: list[Any] = [(obs,)]
    for move in moves:
        obs, reward, terminated, truncated, info = convert(env.step(move), "numpy")
        last, done = obs, terminated | truncated
        if isinstance(env, VectorEnv):
            last = np.array(obs)
            for index in np.flatnonzero(done):
                last[index] = info["final_obs"][index]
        found.append((last, reward, terminated, truncated))
        if not isinstance(env, VectorEnv) and done:
            env.reset()
    return convert(found, "numpy")  # type: ignore[no-any-return]
