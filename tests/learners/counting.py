"""Environments that count, apart from the tests: their workers need not import Stable-Baselines3."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Counting(gym.Env[Any, Any]):
    """Ends after some steps, by turns terminated and truncated; observes the count and a random number."""

    action_space = spaces.Discrete(3)
    render_mode = "rgb_array"
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 1}

    def __init__(self, length: int = 3, nested: bool = False) -> None:
        box = spaces.Box(-1e3, 1e3, (2,), np.float32)
        self.observation_space = spaces.Dict(a=box, b=spaces.Discrete(1000)) if nested else box
        self.length, self.nested, self.episodes = length, nested, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count, self.options = 0, options
        return self._observe(), {"start": self.episodes}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.count += 1
        is_over = self.count == self.length
        self.episodes += is_over
        cut = is_over and self.episodes % 2 == 0
        return self._observe(), self.count + 0.25, is_over and not cut, cut, {"count": self.count}

    def _observe(self) -> Any:
        a = np.array([self.count, self.np_random.random()], np.float32)
        return {"a": a, "b": self.count} if self.nested else a

    def render(self) -> Any:
        return np.full((2, 2, 3), self.count, np.uint8)

    def shout(self, word: str) -> str:
        return word.upper()


class Deadly(Counting):
    """Takes its worker with it by the action 2."""

    def step(self, action: Any) -> Any:
        if action == 2:
            os._exit(1)
        return super().step(action)
