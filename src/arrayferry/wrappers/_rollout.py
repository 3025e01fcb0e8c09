"""Environments of every kind, played with sampled actions: for `explain` and `check`."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from arrayferry.errors import OptionError
from arrayferry.spaces.batched import action_space_of
from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers._autoreset import reset_finished
from arrayferry.wrappers._boundary import Boundary

__all__ = ["RandomRollout", "rollout_of", "refuse_no_steps"]


def refuse_no_steps(steps: Any) -> None:
    """Refuse a number of steps that would show nothing."""
    if not isinstance(steps, Integral) or steps < 1:
        raise OptionError(f"steps={steps!r} is not valid", "pass 1 or more")


class RandomRollout:
    """Plays a Gymnasium environment, single or vector."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._made_of: Any = None
        self._actions: Any = None

    def _action_space(self) -> Any:
        """Return the space of what a step takes, remade only if the environment's has changed."""
        if (space := self._env.action_space) is not self._made_of:
            self._made_of, self._actions = space, action_space_of(self._env)
        return self._actions

    def reset(self, env: Any, seed: int | None) -> None:
        """Seed the actions, and start an episode of the environment, or of a wrapper around it."""
        self._action_space().seed(seed)
        env.reset(seed=seed)

    def sample(self) -> Any:
        """Return the next action."""
        return self._action_space().sample()

    def boundary(self, boundary: Boundary) -> Boundary:
        """Return the boundary that the next action goes through."""
        return boundary

    def step(self, env: Any, action: Any) -> Any:
        """Take a step, and return what it returned."""
        return env.step(action)

    def start_again(self, env: Any, terminated: Any, truncated: Any) -> None:
        """Start the next episode, if one is over."""
        reset_finished(env, terminated, truncated)


class _ParallelRollout(RandomRollout):
    """Plays a parallel environment of PettingZoo, with an action for each live agent."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._masks: dict[Any, Any] = {}

    def reset(self, env: Any, seed: int | None) -> None:
        for agent in self._env.possible_agents:
            self._env.action_space(agent).seed(seed)
        self._look(*env.reset(seed=seed))

    def _look(self, obs: Any, *others: Any) -> None:
        places = [one for one in (obs, *others[-1:]) if isinstance(one, Mapping)]
        self._masks = {agent: _mask(*(one.get(agent) for one in places)) for agent in self._env.agents}

    def sample(self) -> Any:
        return {
            agent: self._env.action_space(agent).sample(self._masks.get(agent)) for agent in self._env.agents
        }

    def step(self, env: Any, action: Any) -> Any:
        result = env.step(action)
        if isinstance(result, tuple):  # the caller reports anything else
            self._look(*result)
        return result

    def start_again(self, env: Any, terminated: Any, truncated: Any) -> None:
        if not self._env.agents:
            self._look(*env.reset())


class _TurnsRollout(RandomRollout):
    """Plays an AEC environment of PettingZoo, with an action for the agent whose turn it is."""

    def reset(self, env: Any, seed: int | None) -> None:
        env.reset(seed=seed)
        for agent in self._env.agents:
            self._env.action_space(agent).seed(seed)
        env.last()

    def sample(self) -> Any:
        obs, _, terminated, truncated, info = self._env.last()
        if terminated or truncated:
            return None
        return self._env.action_space(self._env.agent_selection).sample(_mask(obs, info))

    def boundary(self, boundary: Any) -> Boundary:
        found: Boundary = boundary.of(self._env.agent_selection)
        return found

    def step(self, env: Any, action: Any) -> Any:
        env.step(action)
        if not self._env.agents:
            env.reset()
        return env.last()

    def start_again(self, env: Any, terminated: Any, truncated: Any) -> None:
        """Do nothing: `step` resets, because it has nothing to return without an agent."""


def rollout_of(env: Any) -> RandomRollout:
    """Return the rollout for an environment."""
    if not callable(getattr(env, "action_space", None)):
        return RandomRollout(env)
    return _TurnsRollout(env) if hasattr(env, "agent_iter") else _ParallelRollout(env)


def _mask(*places: Any) -> Any:
    """Return the mask of legal actions in PettingZoo's observations or infos; None if there is none."""
    for place in places:
        if isinstance(place, dict) and "action_mask" in place:
            return to_numpy(place["action_mask"])
    return None
