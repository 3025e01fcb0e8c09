"""An environment with many agents, written in JAX, as a parallel PettingZoo environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

from arrayferry._frameworks.jax import jax
from arrayferry.envs._engine import Engine
from arrayferry.envs._environments import JaxEnvBase
from arrayferry.envs._spaces import as_action, first_member
from arrayferry.errors import UnsupportedError
from arrayferry.spaces.structure import subspaces

if TYPE_CHECKING:
    from gymnasium import spaces


__all__ = ["JaxParallelEnv"]


class JaxParallelEnv(JaxEnvBase, ParallelEnv):  # type: ignore[misc]  # PettingZoo is not typed
    """An environment with many agents, written in JAX: dicts of JAX arrays by agent, rewards as floats.

    `as_parallel` makes it. Each agent's info is the package's info, except that an `action_mask` is the
    agent's own.
    """

    np_random = property(lambda self: seeding.np_random()[0])  # PettingZoo's environments have none

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, None)
        self.spec = None  # Gymnasium's `make` cannot make PettingZoo's environments
        self.metadata["name"] = engine.interface.name
        self.possible_agents = list(engine.interface.agents)
        self.agents: list[str] = []
        for what, space in ("obs", engine.observation_space), ("action_space", engine.interface.action_space):
            if set(subspaces(space)) != set(self.possible_agents):
                text = f"{engine.interface.name} has {space} for its agents"
                raise UnsupportedError(text, f"let it be a dict with {self.possible_agents}", where=what)
        self.observation_spaces: dict[str, spaces.Space[Any]] = subspaces(engine.observation_space)
        members: Any = engine.interface.action_space
        self.action_spaces: dict[str, spaces.Space[Any]] = dict(members.spaces)
        # The package still wants an action from an agent that has left.
        self._no_actions = first_member(engine.members)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's actions."""
        return self.action_spaces[agent]

    def state(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # PettingZoo's method
        """Return the package's state for all agents together, if it has one."""
        if (world_state := self._engine.world_state) is None:
            raise NotImplementedError(f"{self.metadata['name']} has no state for all agents")
        return world_state(super().state)  # of a copy: it may be a part of the state

    def get_state(self) -> Any:
        """Return all that later steps and resets depend on: a copy of it."""
        return super().get_state(), np.array([agent in self.agents for agent in self.possible_agents])

    def set_state(self, state: Any) -> None:
        """Go on from a state that `get_state` has returned: everything after it comes again, bit for bit."""
        leaves, is_alive = state if isinstance(state, tuple) and len(state) == 2 else (None, None)
        super().set_state(leaves)
        self.agents = [agent for agent, alive in zip(self.possible_agents, np.asarray(is_alive)) if alive]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode; without a seed, the next one in the current sequence."""
        obs, info = self._begin(*self._engine.start(self._keys([seed])[0]))
        self.agents = list(self.possible_agents)
        return obs, self._infos(info)

    def step(self, actions: dict[str, Any]) -> tuple[Any, ...]:
        """Take a step with an action for each live agent; those whose episodes are over leave."""
        leaves = self._carried("step()")
        if not self.agents:
            raise gym.error.ResetNeeded("the episode is over: call reset()")
        whole = {agent: self._action(agent, actions) for agent in self.possible_agents}
        (is_refused, *values), results = self._advance(leaves, whole)
        if is_refused:
            raise gym.error.InvalidAction(f"an action of {actions!r} is not in its agent's action space")
        observations, info = results.read(1)
        obs = {agent: observations[agent] for agent in self.agents}
        rewards, terminated, truncated = map(self._by_agent, values)
        infos = self._infos(info)
        self.agents = [agent for agent in self.agents if not (terminated[agent] or truncated[agent])]
        return obs, rewards, terminated, truncated, infos

    def _action(self, agent: str, actions: dict[str, Any]) -> Any:
        if agent not in self.agents:
            return self._no_actions[agent]
        if agent not in actions:
            raise gym.error.InvalidAction(f"there is no action for {agent}")
        return as_action(self._engine.members[agent], actions[agent], f"action[{agent!r}]")

    def _by_agent(self, values: Any) -> dict[str, Any]:
        by_agent = dict(zip(self.possible_agents, np.asarray(values).tolist(), strict=True))
        return {agent: by_agent[agent] for agent in self.agents}

    def _infos(self, info: dict[str, Any]) -> dict[str, dict[str, Any]]:
        masks = info.pop("action_mask") if isinstance(info.get("action_mask"), dict) else {}
        infos = {agent: jax.tree.map(lambda leaf: leaf, info) for agent in self.agents}
        for agent in masks.keys() & infos.keys():
            infos[agent]["action_mask"] = masks[agent]
        return infos
