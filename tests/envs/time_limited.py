"""Toys in the form of gymnax and JaxMARL, with a time limit, which some keep in their state as `done`.

Their classes are named as the packages' own are, so that they are known without the packages.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp


class Discrete:
    """A space as gymnax and JaxMARL have it."""

    def __init__(self, n: int) -> None:
        self.n = n


class Box:
    """A space as gymnax and JaxMARL have it."""

    low, high, shape, dtype = -99.0, 99.0, (1,), jnp.float32


@dataclasses.dataclass(frozen=True)
class Params:
    """The limit of an episode, and the place where it ends."""

    max_steps_in_episode: int = 3
    end: int = 5

    def replace(self, **changes: Any) -> Params:
        return dataclasses.replace(self, **changes)


class State(NamedTuple):
    place: Any
    time: Any
    terminal: Any


class Environment:
    """A walk of gymnax: action 0 stays, others go that far."""

    __module__ = "gymnax.environments"
    name, default_params, num_actions = "Limited-v0", Params(), 8
    keeps_done, is_late_by = True, 0

    def reset_env(self, key: Any, params: Params) -> Any:
        state = State(jnp.int32(0), jnp.int32(0), jnp.bool_(False))
        return self.get_obs(state), state

    def step_env(self, key: Any, state: State, action: Any, params: Params) -> Any:
        state = state._replace(place=state.place + action, time=state.time + 1)
        done = self.is_terminal(state, params)
        if self.keeps_done:
            state = state._replace(terminal=done)
        return self.get_obs(state), state, 1.0 * ~done, done, {}

    def is_terminal(self, state: State, params: Params) -> Any:
        is_late = state.time >= params.max_steps_in_episode + self.is_late_by
        return (state.place >= params.end) | is_late | state.terminal

    def get_obs(self, state: State) -> Any:
        return state.place[None].astype(jnp.float32)

    def observation_space(self, params: Params) -> Any:
        return Box()

    def action_space(self, params: Params) -> Any:
        return Discrete(8)


class Forgetful(Environment):
    """Keeps nothing in its state."""

    keeps_done = False


class Late(Environment):
    """Counts its steps from another number than its state does."""

    is_late_by = -1


class MultiAgentEnv:
    """A walk of JaxMARL for two, whose episode is over for all when one has reached the end, or the limit."""

    __module__ = "jaxmarl.environments"
    name, agents = "limited", ["a", "b"]

    def __init__(self, max_steps: int = 3) -> None:
        self.max_steps = max_steps

    def reset(self, key: Any) -> Any:
        state = State(jnp.zeros(2, jnp.int32), jnp.int32(0), jnp.bool_(False))
        return self._obs(state), state

    def step_env(self, key: Any, state: State, actions: Any) -> Any:
        place = state.place + jnp.stack([actions[agent] for agent in self.agents])
        done = (place >= 5).any() | (state.time + 1 >= self.max_steps) | state.terminal
        state = State(place, state.time + 1, done)
        rewards = dict.fromkeys(self.agents, 1.0)
        return self._obs(state), state, rewards, {"a": done, "b": done, "__all__": done}, {}

    def _obs(self, state: State) -> Any:
        return {agent: state.place[i, None].astype(jnp.float32) for i, agent in enumerate(self.agents)}

    def observation_space(self, agent: str) -> Any:
        return Box()

    def action_space(self, agent: str) -> Any:
        return Discrete(8)


GAMES = [Environment, Forgetful, Late]
