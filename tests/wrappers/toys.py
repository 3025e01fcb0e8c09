"""Small environments, each with one habit. (Worker processes import this file: no framework here.)"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

BOX = spaces.Box(-10, 10, (3,), np.float32)


class Recorder(gym.Env[Any, Any]):
    """Keeps every action, options and seed that it was given, as it was given."""

    def __init__(self, action_space: spaces.Space[Any] = BOX, xp: Any = np) -> None:
        self.action_space = action_space
        self.observation_space = BOX
        self.framework = xp.__name__  # a module cannot be pickled
        self.actions: list[Any] = []
        self.resets: list[tuple[Any, Any]] = []

    @property
    def xp(self) -> Any:
        return import_module(self.framework)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets.append((seed, options))
        return self.xp.zeros(3, dtype=self.xp.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        return self.xp.zeros(3, dtype=self.xp.float32), 0.0, False, False, {}


class Scripted(gym.Env[Any, Any]):
    """Returns what it is told to: one result of `step` after the other."""

    def __init__(self, *steps: Any, reset: Any = None, observation_space: Any = BOX) -> None:
        self.action_space = spaces.Discrete(2)
        self.observation_space = observation_space
        self._steps = list(steps)
        self._reset = (np.zeros(3, np.float32), {}) if reset is None else reset

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._reset

    def step(self, action: Any) -> Any:
        found = self._steps.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


class Counter(gym.Env[Any, Any]):
    """Counts its steps; every episode has `length`. The observation is what `show` makes of the count."""

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["rgb_array", "ansi", "rgb_array_list"],
        "render_fps": 10,
    }

    def __init__(
        self,
        length: int = 3,
        show: Callable[[int], Any] = lambda count: np.full(3, count, np.float32),
        observation_space: spaces.Space[Any] = BOX,
        render_mode: str | None = None,
    ) -> None:
        self.action_space = spaces.Discrete(5)
        self.observation_space = observation_space
        self.render_mode = render_mode
        self.length, self.show, self.count = length, show, 0

    def _info(self) -> dict[str, Any]:
        return {"count": self.count, "word": f"step {self.count}", "path": np.arange(2) + self.count}

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self.show(0), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return self.show(self.count), self.count / 2, self.count >= self.length, False, self._info()

    def render(self) -> Any:
        frame = np.full((4, 6, 3), self.count, np.uint8)
        return {
            "rgb_array": frame,
            "ansi": f"step {self.count}",
            "rgb_array_list": [frame, frame],
            None: None,
        }[self.render_mode]


class Reusing(gym.Env[Any, Any]):
    """Writes everything that it returns into the same memory, and the action that it got too."""

    def __init__(self) -> None:
        self.action_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.observation_space = spaces.Dict(a=BOX, b=spaces.Box(-1e6, 1e6, (2,), np.float64))
        self.observation = {"a": np.zeros(3, np.float32), "b": np.zeros(2)}
        self.info = {"nested": {"c": np.zeros(2, np.int32)}, "image": np.zeros((2, 3), np.uint8)}
        self.count = 0

    def _write(self) -> tuple[Any, Any]:
        self.observation["a"][:] = self.count
        self.observation["b"][:] = self.count / 3
        self.info["nested"]["c"][:] = self.count
        self.info["image"][:] = self.count
        return self.observation, self.info

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.count = 0
        return self._write()

    def step(self, action: Any) -> Any:
        self.count += 1
        observation, info = self._write()
        action[:] = -1  # it is its own
        return observation, 1.0, False, False, info
