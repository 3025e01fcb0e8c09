"""The sanitizers of PettingZoo's environments: they look at what passes, agent by agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from arrayferry._boundary.agents import find_space
from arrayferry._boundary.answers import STEP
from arrayferry.sanitizer.wrapper import Watching


class _WatchingAgents(Watching):
    """What both sanitizers share: observations should be in their agent's space."""

    def _space_of(self, box: list[Any]) -> Any:
        """Return the space of all observations, of those agents that have one."""
        agents = box[0] if isinstance(box[0], Mapping) else ()
        by_agent = {agent: find_space(self.env.observation_space, agent) for agent in agents}
        return spaces.Dict({agent: space for agent, space in by_agent.items() if space is not None})

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        """Start an episode, watched."""
        return super().reset(seed=seed, options=options)

    def state(self) -> Any:
        """Return the state of the whole environment, watched."""
        return self._watch([], lambda: (self.env.state(),), ("state",))[0]


def _attribute(name: str, part: str) -> Any:
    """Return a property that reads an attribute of the environment, watched as this part of a step."""
    return property(lambda self: self._watch([], lambda: (getattr(self.env, name),), (part,))[0])


class ParallelSanitizer(_WatchingAgents, BaseParallelWrapper[Any, Any, Any]):
    """Watches a parallel environment; the arguments are those of `Sanitizer`."""


class AECSanitizer(_WatchingAgents, BaseWrapper[Any, Any, Any]):
    """Watches an environment whose agents take turns; the arguments are those of `Sanitizer`."""

    def step(self, action: Any) -> None:
        """Take an agent's step, watched."""
        box = [{getattr(self.env, "agent_selection", None): action}]
        del action
        self._watch(box, lambda: self.env.step(*box[0].values()))

    def observe(self, agent: Any) -> Any:
        """Return what an agent sees, watched."""
        return self._watch([], lambda: ({agent: self.env.observe(agent)},), STEP[:1])[0][agent]

    def last(self, observe: bool = True) -> Any:
        """Return the selected agent's observation, reward, flags and info, watched."""
        agent, first = self.env.agent_selection, 0 if observe else 1
        last = lambda: tuple({agent: value} for value in self.env.last(observe)[first:])  # noqa: E731
        return (*[None] * first, *(value[agent] for value in self._watch([], last, STEP[first:])))

    rewards, infos = _attribute("rewards", "reward"), _attribute("infos", "info")
    _cumulative_rewards = _attribute("_cumulative_rewards", "reward")
