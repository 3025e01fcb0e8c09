"""What the tests of the sanitizer share: findings by kind and path, and environments that keep memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import arrayferry
from arrayferry.sanitizer import Finding
from wrappers.toys import BOX

ACTION = np.ones(2, np.float32)


def found(env: Any) -> dict[tuple[str, str], Finding]:
    """What was found, by kind and path."""
    return {(finding.kind, finding.path): finding for finding in arrayferry.findings(env)}


def worse(env: Any) -> dict[tuple[str, str], Finding]:
    """What was found and is more than an info."""
    return {key: finding for key, finding in found(env).items() if finding.severity != "info"}


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


FRESH: dict[str, Callable[[Any], Any]] = {
    "copy": lambda state: state.copy(),
    "view_of_copy": lambda state: state.copy()[:],
    "transposed": lambda state: np.stack([state]).T[:, 0],
    "computed": lambda state: state * 2,
}


def step_of(obs: Any, reward: Any = 0.0, info: Any = None) -> tuple[Any, ...]:
    return obs, reward, False, False, {} if info is None else info


ZERO = np.zeros(3, np.float32)
NAN = np.array([0, np.nan, 0], np.float32)
