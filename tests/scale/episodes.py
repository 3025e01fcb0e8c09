"""Environments whose episodes and infos differ, and what processes must see of them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

SEED = 11


class Episodes(gym.Env):
    """Ends when its own random numbers say so, and tells something now and then."""

    observation_space = spaces.Dict(
        place=spaces.Box(-100, 100, (4,), np.float32), count=spaces.Discrete(100), tag=spaces.Box(0, 1, ())
    )
    action_space = spaces.MultiDiscrete([3, 2])
    metadata: Any = {"render_modes": []}  # noqa: RUF012

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self.np_random.normal(size=4).astype(np.float32)
        self._count, self._end = 0, int(self.np_random.integers(2, 20))
        return self._observation(), {"start": self._place[0]}

    def _observation(self):
        return {
            "place": self._place.copy(),
            "count": np.int64(self._count),
            "tag": np.float32(self._count % 2),
        }

    def step(self, action):
        assert action in self.action_space, action
        self._place = (
            self._place + np.float32(action[0] - 1) + self.np_random.normal(size=4).astype(np.float32)
        )
        self._count += 1
        over = self._count >= self._end
        info: dict[str, Any] = {"pair": self._place[:2].copy()} if self.np_random.random() < 0.3 else {}
        if self.np_random.random() < 0.02:
            info |= {"rare": int(action[1]), "word": "rare"}
        truncated = bool(over and self._end % 3 == 0)
        return self._observation(), float(self._place[1]), over and not truncated, truncated, info


def make(count: int, mode: AutoresetMode = AutoresetMode.SAME_STEP) -> SyncVectorEnv:
    return SyncVectorEnv([Episodes] * count, autoreset_mode=mode)


def policy(obs: Any, xp: Any) -> Any:
    """Return actions that depend on every part of an observation, bit by bit the same in all frameworks."""
    first = (obs["place"][:, 0] > 0) + 0 * obs["count"] + (obs["place"][:, 3] < obs["tag"])
    return xp.stack([first, obs["count"] % 2], 1)


def by_row(info: Any, count: int) -> list[dict[str, Any]]:
    """Return the info of each environment, as plain data."""
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, value in info.items():
        inner = by_row(value, count) if isinstance(value, dict) else value
        for row in range(count) if not key.startswith("_") else ():
            if f"_{key}" not in info or info[f"_{key}"][row]:
                found[row][key] = _plain(inner[row])
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return (value.dtype.name, value.tolist()) if hasattr(value, "dtype") else value


def record(count: int, obs: Any, *others: Any) -> list[Any]:
    """Return what each environment has shown in a step or reset, as plain data; all arrays are NumPy's."""
    *arrays, info = others
    infos = by_row(info, count)
    return [
        (
            _plain({key: one[row] for key, one in obs.items()}),
            [_plain(one[row]) for one in arrays],
            infos[row],
        )
        for row in range(count)
    ]


def reference(count: int, steps: int) -> list[list[Any]]:
    """Return the records of all environments, stepped in one process, with nothing of ours."""
    envs = make(count)
    obs, info = envs.reset(seed=SEED)
    records = [record(count, obs, info)]
    for _ in range(steps):
        obs, *others = envs.step(policy(obs, np))
        records.append(record(count, obs, *others))
    return records
