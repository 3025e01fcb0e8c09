"""Environments that count, apart from the tests: their workers need not import Stable-Baselines3."""

from __future__ import annotations

import os
import socket
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


class Named(gym.Wrapper[Any, Any, Any, Any]):
    """A wrapper to be asked for."""


class Renamed(Named):
    """Is one, too."""


class DeadlyReset(Counting):
    """Takes its worker with it by its second reset, unless it is a successor's."""

    def __init__(self, length: int, mark: str) -> None:
        super().__init__(length)
        self.mark = mark

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.episodes == 1 and not os.path.exists(self.mark):
            with open(self.mark, "x"):
                os._exit(1)
        return super().reset(seed=seed, options=options)


class Announcing(Counting):
    """Connects to a port when a step starts."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    def step(self, action: Any) -> Any:
        socket.create_connection(("127.0.0.1", self.port)).close()
        return super().step(action)


class Talkative(gym.Env[Any, Any]):
    """Says anything in its infos: other keys, types, shapes and dtypes in each environment and step."""

    action_space = spaces.Discrete(3)
    render_mode = None

    def __init__(self, nested: bool = False) -> None:
        box = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = spaces.Dict(a=box, b=spaces.Discrete(9)) if nested else box
        self.nested = nested

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._observe(), {**self._say(), "episode": 7, "TimeLimit.truncated": "no"}

    def step(self, action: Any) -> Any:
        ends, cut = (self.np_random.random(2) < 0.1).tolist()
        return self._observe(), self.np_random.random(), ends, cut, self._say()

    def _observe(self) -> Any:
        a = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"a": a, "b": np.int64(self.np_random.integers(9))} if self.nested else a

    def _say(self) -> dict[Any, Any]:
        values = [1, 0.5, True, None, "text", b"raw", 2**70, 1j, np.float32(0.1), np.int8(3), np.bool_(True)]
        values += [np.arange(3), np.ones((2, 2), np.float16), np.zeros(0), np.array(["a", "bcd"])]
        values += [[1, [2.5, "x"]], (1, np.float32(2)), {1, 2}, {}, {"in": {1: 2, "_in": 3}}, range(3)]
        keys = ["value", "other", 3, (1, 2), "_hidden", "final", "names"]
        chosen = self.np_random.random(len(keys)) < 0.4
        return {
            key: values[self.np_random.integers(len(values))] for key, is_in in zip(keys, chosen) if is_in
        }


class Reaching(gym.Env[Any, Any]):
    """A walk along a line to a goal, for hindsight replay."""

    action_space = spaces.Discrete(2)
    render_mode = None

    def __init__(self) -> None:
        place = spaces.Box(-9, 9, (1,), np.float32)
        self.observation_space = spaces.Dict(observation=place, achieved_goal=place, desired_goal=place)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.count = 0, 0
        self.goal = int(self.np_random.integers(-4, 5))
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.place, self.count = self.place + 2 * int(action) - 1, self.count + 1
        obs = self._observe()
        reward = float(self.compute_reward(obs["achieved_goal"], obs["desired_goal"], {}))
        return obs, reward, reward == 0, self.count == 6, {"is_success": reward == 0}

    def _observe(self) -> Any:
        here, goal = (np.array([value], np.float32) for value in (self.place, self.goal))
        return {"observation": here, "achieved_goal": here.copy(), "desired_goal": goal}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.abs(achieved - desired).sum(-1) > 0.5).astype(np.float32)


class Rescaled(gym.RewardWrapper[Any, Any]):
    """Shows a learner other rewards than are counted."""

    def reward(self, reward: Any) -> Any:
        return reward / 10


def limited(length: int) -> Any:
    return gym.wrappers.TimeLimit(Renamed(Counting(length)), 50)


def monitored() -> Any:
    from stable_baselines3.common.monitor import Monitor

    return Rescaled(Monitor(Counting(4)))


def unmonitored() -> Any:
    return Rescaled(Counting(4))
