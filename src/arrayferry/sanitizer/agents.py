"""The sanitizers of PettingZoo's environments: they look at what passes, agent by agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from arrayferry.sanitizer.wrapper import Watching
from arrayferry.wrappers._agents import find_space
from arrayferry.wrappers._answers import STEP

__all__ = ["AECSanitizer", "ParallelSanitizer"]

# An environment that keeps making new agents must not make the table grow without bound.
_MANY = 1000


class _WatchingAgents(Watching):
    """What both sanitizers share: observations should be in their agent's space."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._spaces: dict[Any, Any] = {}
        super().__init__(*arguments, **options)

    def _space_of(self, box: list[Any]) -> Any:
        """Return the space of all observations, the same object for the same agents."""
        agents = tuple(box[0]) if isinstance(box[0], Mapping) else ()
        if agents not in self._spaces:
            if len(self._spaces) >= _MANY:
                self._spaces.clear()
            found = {agent: find_space(self.env.observation_space, agent) for agent in agents}
            self._spaces[agents] = spaces.Dict(
                {agent: one for agent, one in found.items() if one is not None}
            )
        return self._spaces[agents]

    def state(self) -> Any:
        """Return the state of the whole environment, watched."""
        return self._watch([], lambda: (self.env.state(),), ("state",))[0]


def _attribute(name: str, part: str) -> Any:
    """Return a property that reads an attribute of the environment, watched as this part of a step."""
    return property(lambda self: self._watch([], lambda: (getattr(self.env, name),), (part,))[0])


class ParallelSanitizer(_WatchingAgents, BaseParallelWrapper[Any, Any, Any]):
    """Watches a parallel environment; the arguments are those of `Sanitizer`."""

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        """Start an episode, watched."""
        return super().reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        """Take a step, watched."""
        box = [actions]
        del actions  # so that only the box holds them, unless somebody else does
        return self._watch(box, lambda: self.env.step(box[0]), STEP)


class AECSanitizer(_WatchingAgents, BaseWrapper[Any, Any, Any]):
    """Watches an environment whose agents take turns; the arguments are those of `Sanitizer`."""

    def reset(self, seed: Any = None, options: Any = None) -> None:
        """Start an episode, watched."""
        self._watch([], lambda: self.env.reset(seed=seed, options=options))

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
        values = self._watch(
            [], lambda: tuple({agent: one} for one in self.env.last(observe)[first:]), STEP[first:]
        )
        return (*[None] * first, *(one[agent] for one in values))

    rewards, infos = _attribute("rewards", "reward"), _attribute("infos", "info")
    _cumulative_rewards = _attribute("_cumulative_rewards", "reward")
