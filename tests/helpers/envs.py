"""Small environments, each with one habit. (Worker processes import this file: no framework at its top.)"""

from __future__ import annotations

import ctypes
import os
import sys
import time
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


class FakeFramework(gym.Env[Any, Any]):
    """Returns from `step` what a function makes."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.action_space, self.observation_space = spaces.Discrete(3), spaces.Box(0, 1, (3,))
        self.make = make

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        return self.make()


class Observed(gym.Env[Any, Any]):
    """Observes what a function makes, and does as little else as an environment can."""

    def __init__(self, observe: Callable[[], Any], info: Callable[[], Any] = dict) -> None:
        self.action_space, self.observation_space = spaces.Discrete(2), spaces.Box(-1, 1, (4,))
        self.observe, self.info = observe, info

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        return self.observe(), 1.0, False, False, self.info()


class ZeroVector(gym.vector.VectorEnv[Any, Any, Any]):
    """64 environments whose observations and rewards are zeros."""

    num_envs = 64
    single_observation_space, observation_space = spaces.Box(-1, 1, (4,)), spaces.Box(-1, 1, (64, 4))
    single_action_space, action_space = spaces.Discrete(2), spaces.MultiDiscrete([2] * 64)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((64, 4), np.float32), {}

    def step(self, actions: Any) -> Any:
        return np.zeros((64, 4), np.float32), np.zeros(64), np.zeros(64, bool), np.zeros(64, bool), {}


class Held(gym.Env[Any, Any]):
    """Returns its own state, as MountainCarContinuous does; `give` says in which way."""

    def __init__(self, give: Callable[[Any], Any] = lambda state: state, xp: Any = np) -> None:
        self.action_space, self.observation_space = spaces.Discrete(2), BOX
        self.give, self.xp = give, xp

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.state = self.xp.zeros(3, dtype=self.xp.float32)
        return self.give(self.state), {}

    def step(self, action: Any) -> Any:
        self.state = self.state + 1
        return self.give(self.state), 0.0, False, False, {}


class Lettered(gym.Env[Any, Any]):
    """Observes strings and objects beside an array of JAX."""

    observation_space = spaces.Dict(m=spaces.Text(2), p=spaces.Box(-1, 1, (2,)))
    action_space = spaces.Box(-1, 1, (2,))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        from jax import numpy as jnp

        return {"m": np.array("go"), "o": np.array([None]), "p": jnp.ones(2, "float32")}, {}

    def step(self, action: Any) -> Any:
        self.got = action
        return self.reset()[0], 1.0, False, False, {}


# --- whose behaviour the commands must show; named on the command line as `helpers.envs:Mixed-v0`


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
