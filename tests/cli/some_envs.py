"""Environments whose behaviour the commands must show; named on the command line as `some_envs:...`."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Mixed(gym.Env[Any, Any]):
    """Returns a leaf that is new in each step, one that it keeps, a view, a string and a number."""

    action_space = spaces.Dict({"move": spaces.Box(-1, 1, (2,)), "jump": spaces.Discrete(2)})
    observation_space = spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (12, 8), np.uint8),
            "kept": spaces.Box(-np.inf, np.inf, (300, 40), np.float64),
            "new": spaces.Box(-1, 1, (4,), np.float32),
        }
    )

    def __init__(self) -> None:
        self.kept = np.zeros((300, 40))

    def _observation(self) -> Any:
        camera = np.zeros((12, 8), np.uint8)[::-1]
        return {"camera": camera, "kept": self.kept, "new": np.zeros(4, np.float32)}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._observation(), {"mission": "go [left]"}

    def step(self, action: Any) -> Any:
        assert action in self.action_space
        return self._observation(), np.float64(1), np.bool_(False), False, {"mission": "go", "lives": 3}


class Overwrites(Mixed):
    """Writes into memory that it has returned, and leaves its observation space."""

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        self.kept += 1
        return {**obs, "new": np.full(4, 7, np.float32)}, *rest


class Counts(gym.Env[Any, Any]):
    """Counts beyond int32."""

    action_space, observation_space = spaces.Discrete(2), spaces.Box(0, 2**60, (1,), np.int64)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.array([2**40]), {}

    def step(self, action: Any) -> Any:
        return np.array([2**40]), 0.0, False, False, {}


class Breaks(Counts):
    """Fails in its first step, with brackets in its message."""

    def step(self, action: Any) -> Any:
        raise RuntimeError("the motor [left] is gone")


class Slow(Counts):
    """Takes long enough for somebody to press Ctrl-C."""

    def step(self, action: Any) -> Any:
        time.sleep(0.05)
        return super().step(action)


class Prints(Counts):
    """Prints in every step: from Python, past Python's buffer, and from C."""

    def step(self, action: Any) -> Any:
        print("printed")
        print("past sys.stdout", file=sys.__stdout__)
        os.write(1, b"written\n")
        ctypes.CDLL(None).puts(b"put")
        return super().step(action)


not_an_environment = 3

for _env in (Mixed, Overwrites, Counts, Breaks, Slow, Prints):
    gym.register(f"{_env.__name__}-v0", _env, disable_env_checker=True)
