"""Sampled actions for environments of every kind, and the steps and resets that they are for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from arrayferry._boundary.actions import owner_of_action_space
from arrayferry._boundary.autoreset import autoreset_mode_of
from arrayferry._boundary.boundary import Boundary
from arrayferry._core.convert import convert
from arrayferry.spaces.members import to_numpy
from arrayferry.spaces.structure import step_space

__all__ = ["RandomRollout", "rollout_of"]


class RandomRollout:
    """Steps a Gymnasium environment, single or vector."""

    def __init__(self, env: Any) -> None:
        self._env, self._owner = env, owner_of_action_space(env, step_space(env, "action_space"))

    def reset(self, env: Any, seed: int | None) -> None:
        """Seed the actions, and start an episode of the environment, or of a wrapper around it."""
        self._owner.action_space.seed(seed)
        env.reset(seed=seed)

    def sample(self) -> Any:
        """Return the next action."""
        return self._owner.action_space.sample()

    def boundary(self, boundary: Boundary) -> Boundary:
        """Return the boundary that the next action goes through."""
        return boundary

    def step(self, env: Any, action: Any) -> Any:
        """Take a step, and return what it returned."""
        return env.step(action)

    def start_again(self, env: Any, terminated: Any, truncated: Any) -> None:
        """Reset what has finished its episode, if the environment does not do that by itself."""
        if not isinstance(env, VectorEnv):
            if _is_over(terminated) or _is_over(truncated):
                env.reset()
        elif autoreset_mode_of(env) is AutoresetMode.DISABLED:
            done = np.logical_or(*convert((terminated, truncated), "numpy"))
            if done.any():
                env.reset(options={"reset_mask": done})


def _is_over(flag: Any) -> bool:
    """Return whether an episode is over; with many agents, by RLlib's `__all__`, or if all are done."""
    if isinstance(flag, Mapping):
        return bool(flag.get("__all__", flag and all(flag.values())))
    return bool(flag)


class _ParallelRollout(RandomRollout):
    """Steps a parallel environment of PettingZoo, with an action for each live agent."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._masks: dict[Any, Any] = {}

    def reset(self, env: Any, seed: int | None) -> None:
        for agent in self._env.possible_agents:
            self._env.action_space(agent).seed(seed)
        self._read_masks(*env.reset(seed=seed))

    def _read_masks(self, obs: Any, *others: Any) -> None:
        mappings = [values for values in (obs, *others[-1:]) if isinstance(values, Mapping)]
        self._masks = {
            agent: _mask(*(values.get(agent) for values in mappings)) for agent in self._env.agents
        }

    def sample(self) -> Any:
        return {
            agent: self._env.action_space(agent).sample(self._masks.get(agent)) for agent in self._env.agents
        }

    def step(self, env: Any, action: Any) -> Any:
        result = env.step(action)
        if isinstance(result, tuple):  # the caller reports anything else
            self._read_masks(*result)
        return result

    def start_again(self, env: Any, terminated: Any, truncated: Any) -> None:
        if not self._env.agents:
            self._read_masks(*env.reset())


class _AECRollout(RandomRollout):
    """Steps an AEC environment of PettingZoo, with an action for the agent whose turn it is."""

    def __init__(self, env: Any) -> None:
        self._env = env

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
        return boundary.of(self._env.agent_selection)  # type: ignore[no-any-return]

    def step(self, env: Any, action: Any) -> Any:
        env.step(action)
        if not self._env.agents:
            env.reset()
        return env.last()

    def start_again(self, env: Any, terminated: Any, truncated: Any) -> None:
        """Do nothing: `step` resets, because it has nothing to return without an agent."""


def rollout_of(env: Any, kind: str | None) -> RandomRollout:
    """Return the rollout for an environment of a kind, as an `EnvAdapter` has it."""
    rollouts: dict[str | None, type[RandomRollout]] = {"parallel": _ParallelRollout, "aec": _AECRollout}
    return rollouts.get(kind, RandomRollout)(env)


def _mask(*values: Any) -> Any:
    """Return the mask of legal actions in an agent's observation or info; None if there is none."""
    masks = [value["action_mask"] for value in values if isinstance(value, dict) and "action_mask" in value]
    return to_numpy(masks[0]) if masks else None
