"""Small environments of PettingZoo, each with habits of real ones."""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

CAMERA = spaces.Box(0, 255, (4,), np.uint8)
AGENTS = ["walker_0", "walker_1", "turner_0"]


class ThreeAgents(ParallelEnv[str, Any, Any]):
    """Three agents with action spaces of their own, of which one is gone after `life` steps.

    Observations are dicts, two with an action mask; rewards a `defaultdict`; an info has a mask, too.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "zoo_v0", "render_modes": ["rgb_array"]}
    possible_agents: ClassVar[list[str]] = AGENTS

    def __init__(self, xp: str = "numpy", life: int = 2, length: int = 5) -> None:
        self.framework, self.life, self.length = xp, life, length
        self.render_mode = "rgb_array"
        self.actions: list[dict[str, Any]] = []
        self.options: Any = None
        self.agents: list[str] = []
        walker = spaces.Dict(observation=CAMERA, action_mask=spaces.MultiBinary(3))
        self.observation_spaces: dict[str, spaces.Space[Any]] = {
            agent: walker if agent != "turner_0" else spaces.Dict(observation=CAMERA) for agent in AGENTS
        }
        self.action_spaces = {
            "walker_0": spaces.Discrete(3),
            "walker_1": spaces.Discrete(3),
            "turner_0": spaces.Box(-1, 1, (2,), np.float32),
        }
        self.state_space = spaces.Box(0, 255, (3,), np.float32)

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def _array(self, value: Any, dtype: str) -> Any:
        xp = import_module(self.framework)
        return xp.asarray(value, dtype=getattr(xp, dtype))

    def _observe(self, agent: str) -> dict[str, Any]:
        number = AGENTS.index(agent) + 10 * self.count
        seen = {"observation": self._array([number] * 4, "uint8")}
        if agent != "turner_0":
            seen["action_mask"] = self._array([1, self.count % 2, 0], "int8")
        return seen

    def _info(self, agent: str) -> dict[str, Any]:
        return {"mask": self._array([0, 1, 1], "int8"), "name": agent, "count": self.count}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents, self.count, self.options = list(AGENTS), 0, options
        return (
            {agent: self._observe(agent) for agent in AGENTS},
            {agent: self._info(agent) for agent in AGENTS},
        )

    def step(self, actions: dict[str, Any]) -> Any:
        self.actions.append(actions)
        self.count += 1
        acted = {agent: actions[agent] for agent in self.agents}
        rewards: defaultdict[str, Any] = defaultdict(int)
        for agent in acted:
            rewards[agent] += np.float64(self.count / 2)
        terminated = {agent: np.bool_(agent == "walker_1" and self.count >= self.life) for agent in acted}
        truncated = dict.fromkeys(acted, self.count >= self.length)
        found = (
            {agent: self._observe(agent) for agent in acted},
            rewards,
            terminated,
            truncated,
            {agent: self._info(agent) for agent in acted},
        )
        self.agents = [agent for agent in acted if not terminated[agent] and not truncated[agent]]
        return found

    def state(self) -> Any:
        return self._array([self.count] * 3, "float32")

    def render(self) -> Any:
        return self._array(np.full((2, 2, 3), self.count), "uint8")

    def close(self) -> None:
        pass


def aec(**options: Any) -> AECEnv[str, Any, Any]:
    """The same, with agents that take turns."""
    return parallel_to_aec(ThreeAgents(**options))  # type: ignore[no-any-return]


class Told(ParallelEnv[Any, Any, Any]):
    """Returns what it is told to from `step`."""

    metadata: ClassVar[dict[str, Any]] = {"name": "told_v0"}

    def __init__(self, *result: Any, agents: Any = ("a", "b")) -> None:
        self.result, self.agents, self.possible_agents = result, [*agents], [*agents]
        self.actions: list[Any] = []
        self._spaces = {agent: (spaces.Box(-9, 9, (2,), np.float32), spaces.Discrete(4)) for agent in agents}

    def observation_space(self, agent: Any) -> Any:
        return self._spaces[agent][0]

    def action_space(self, agent: Any) -> Any:
        return self._spaces[agent][1]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return {agent: np.zeros(2, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions: Any) -> Any:
        self.actions.append(actions)
        if isinstance(self.result[0], Exception):
            raise self.result[0]
        return self.result if len(self.result) > 1 else self.result[0]
