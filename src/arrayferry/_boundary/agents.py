"""The boundary of an environment with many agents, each of which acts in a space of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

from gymnasium import spaces

from arrayferry._boundary.answers import Answers
from arrayferry._boundary.boundary import Boundary, State
from arrayferry._core.interruptions import ignore_errors
from arrayferry._core.messages import note_on
from arrayferry._core.walk import key_text
from arrayferry.errors import FerryError
from arrayferry.spaces.casting import cast_to_space, rebuilt

__all__ = ["AgentsBoundary", "AllAgents", "cast_agents_observations", "find_space"]


class AllAgents:
    """An environment seen from no agent in particular: its action space says nothing."""

    action_space: spaces.Space[Any] = spaces.Space()

    def __init__(self, env: Any) -> None:
        self.env = env


class _SingleAgent:
    """An environment as one of its agents sees it."""

    def __init__(self, env: Any, agent: Hashable) -> None:
        self.env, self._agent = env, agent

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The agent's own action space."""
        space: spaces.Space[Any] = self.env.action_space(self._agent)
        return space


class _AgentsAnswers(Answers):
    """Converts dicts keyed by agent: rewards and dones hold one number or flag per agent."""

    def _number(self, name: str, reward: Any) -> Any:
        return _each(super()._number, name, reward, kept=_REWARDS)

    def _flag(self, name: str, value: Any) -> Any:
        return _each(super()._flag, name, value, kept=_FLAGS)


# What stays as it is; an agent may have no reward.
_REWARDS, _FLAGS = frozenset({float, type(None)}), frozenset({bool})


def _each(change: Callable[[str, Any], Any], name: str, values: Any, kept: frozenset[Any]) -> Any:
    """Change each value of a mapping that is not of a kept type; a value that is for all agents likewise."""
    if not isinstance(values, Mapping):
        return change(name, values)
    if type(values) is dict and kept.issuperset(map(type, values.values())):
        return values.copy()
    return rebuilt(
        values, lambda key, value: value if type(value) in kept else change(_path(name, key), value)
    )


class AgentsBoundary(Boundary):
    """Converts dicts keyed by agent.

    What comes out is converted in one go. What goes in passes a boundary per agent, which is made when the
    agent first acts. The arguments are those of `Boundary`; the environment is an `AllAgents`.
    """

    _answers_class = _AgentsAnswers

    def _new_state(self, *arguments: Any, **options: Any) -> State:
        return replace(super()._new_state(*arguments, **options), convert_action=self._convert_actions)

    def _convert_actions(self, actions: Any) -> Any:
        if not isinstance(actions, Mapping):  # which is up to the environment to refuse
            return self.state.convert_any_action(actions)
        return {agent: self.of(agent).convert_action(action) for agent, action in actions.items()}

    def of(self, agent: Hashable) -> Boundary:
        """Return the boundary of one agent's actions."""
        self._detect()
        state = self.state
        if (boundary := state.agents.get(agent)) is not None:
            return boundary
        env, to_env = self._env.env, state.to_env
        is_known = find_space(env.action_space, agent) is not None
        state.agents[agent] = boundary = Boundary(
            _SingleAgent(env, agent) if is_known else AllAgents(env),
            to_env.framework,
            self.outgoing.framework,
            to_env.device,
            copy=to_env.copy,
            action_name=_path("action", agent),
        )
        return boundary

    def refresh_action_space(self) -> None:
        """Forget agents that are gone; the others notice by themselves when their action space changes."""
        agents = self.state.agents
        for agent in agents.keys() - set(getattr(self._env.env, "agents", ())):
            del agents[agent]

    def add_note(self, error: Exception, action: Any) -> None:
        """Add what arrived and what each agent's space takes, and which agents are missing or unknown."""
        is_ours = isinstance(error, FerryError) and error.where.startswith("action")
        if is_ours or not isinstance(action, Mapping):
            return
        with ignore_errors():  # a note must not replace the error
            for agent, own in action.items():
                self.of(agent).add_note(error, own)
            agents = self._env.env.agents
            if missing := [agent for agent in agents if agent not in action]:
                note_on(error, f"action: none arrived for {', '.join(map(repr, missing))}")
            if unknown := [agent for agent in action if agent not in agents]:
                note_on(error, f"action: no such agent now: {', '.join(map(repr, unknown))}")


def find_space(find: Callable[[Any], spaces.Space[Any]], agent: Hashable) -> spaces.Space[Any] | None:
    """Return an agent's space; None for a key that is not an agent, such as "common" in observations."""
    with ignore_errors():  # environments differ in how they reject an unknown agent
        return find(agent)
    return None


def _path(name: str, agent: Hashable) -> str:
    return name + key_text(agent)


def cast_agents_observations(env: Any, share: bool, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a step or reset, with each observation in the dtypes of its agent's space."""
    obs, *rest = values

    def cast(agent: Hashable, part: Any) -> Any:
        space = find_space(env.observation_space, agent)
        return part if space is None else cast_to_space(space, part, _path("obs", agent), share)

    return rebuilt(obs, cast) if isinstance(obs, Mapping) else obs, *rest
