"""The wrappers for PettingZoo's environments, parallel and AEC. `arrayferry.wrap` chooses between them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from pettingzoo.utils.env import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from arrayferry._boundary.agents import AgentsBoundary, AllAgents, cast_agents_observations
from arrayferry._core.eager import eager
from arrayferry.spaces.casting import cast_to_space
from arrayferry.wrappers.base import ArrayT, ConversionWrapper

__all__ = ["AECArrayConversion", "ParallelArrayConversion"]


class _AgentsWrapper(ConversionWrapper[ArrayT], Generic[ArrayT]):
    """What both wrappers share: the boundary, and spaces by agent."""

    _cast_observations = staticmethod(cast_agents_observations)

    def _new_boundary(self, env: Any, *arguments: Any, **facts: Any) -> AgentsBoundary:
        self._infos: dict[Any, Any] = {}  # converted ones, kept until the next step
        self._by_agent = AgentsBoundary(AllAgents(env), *arguments, **facts)
        return self._by_agent

    def observation_space(self, agent: Any) -> Any:
        """Return the observation space of an agent."""
        find = partial(self.env.observation_space, agent)
        return self._space(("observation", agent), find, of_actions=False)

    def action_space(self, agent: Any) -> Any:
        """Return the action space of an agent."""
        return self._space(("action", agent), partial(self.env.action_space, agent), of_actions=True)

    @property
    def observation_spaces(self) -> Any:
        """The observation spaces by agent, if the environment has them."""
        spaces = self.env.observation_spaces
        return spaces if self._spaces is None else {agent: self.observation_space(agent) for agent in spaces}

    @property
    def action_spaces(self) -> Any:
        """The action spaces by agent, if the environment has them."""
        spaces = self.env.action_spaces
        return spaces if self._spaces is None else {agent: self.action_space(agent) for agent in spaces}

    @property
    def state_space(self) -> Any:
        """The space of `state()`, if the environment has it."""
        return self._space("state", lambda: self.env.state_space, of_actions=False)

    def state(self) -> Any:
        """Return the global state, in the agents' framework."""
        return self._boundary.convert_reset([(self.env.state(), {})])[0]


class ParallelArrayConversion(_AgentsWrapper[ArrayT], BaseParallelWrapper[Any, ArrayT, Any]):
    """A parallel PettingZoo environment of one framework, for agents of another.

    Observations and infos come out in the agents' framework, rewards as `float`, dones as `bool`, all by
    agent. Actions go in as members of their agent's action space, in the environment's framework; None, for
    an agent that is done, stays None.

    Args:
        env: the environment to wrap.
        env_xp: its framework, as a module or by name; None to detect it.
        target_xp: the agents' framework, as a module or by name.
        env_device: where actions go.
        target_device: where observations and infos go.
        copy: None for arrays that are yours, True to always copy, False to share memory or raise.
        dtypes: casts to make on the way out, such as `{"float64": "float32"}`; or `"space"` to cast
            observations, with checks, to the dtypes that the agent's space declares.
        reward_dtype: the dtype to cast rewards to, and only rewards.
        spaces: `"env"` for the environment's own spaces; `"target"` for spaces whose `sample` returns, and
            whose `contains` accepts, the agents' arrays; masks may be in their framework too.
        sanitize: True to watch what crosses the boundary and warn of findings, `"raise"` to raise them, False
            not to watch; None for the mode that `arrayferry.sanitize()` has set.
    """

    _wraps, _kind, _for_others = ParallelEnv, "parallel", "pettingzoo.AECArrayConversion"

    @eager
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode; arrays in the options may be of any framework."""
        return ConversionWrapper.reset(self, seed=seed, options=options)

    @eager
    def step(self, actions: Any) -> Any:
        """Take a step, with each agent's action of any framework."""
        return self._step(actions)


def _by_agent(name: str, place: int, doc: str) -> Any:
    """Return the property for what a step said of each agent, at this place among a step's values."""

    def find(wrapper: Any) -> Any:
        step = [None, 0.0, False, False, None]
        step[place] = getattr(wrapper.env, name)
        return wrapper._boundary.convert_step([tuple(step)])[place]

    return property(find, doc=doc)


class AECArrayConversion(_AgentsWrapper[ArrayT], BaseWrapper[Any, ArrayT, Any]):
    """A PettingZoo environment whose agents take turns (AEC), for agents of another framework.

    `observe`, `last` and `infos` return arrays of the agents' framework; rewards are `float`, dones `bool`.
    Each action goes in as a member of its agent's action space; None, for an agent that is done, stays None.
    Between two steps an info is converted only once: `last` and `infos` return the same one.

    The arguments are those of `ParallelArrayConversion`.
    """

    _wraps, _kind, _for_others = AECEnv, "AEC", "pettingzoo.ParallelArrayConversion"

    @eager
    def reset(  # type: ignore[override]
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Start an episode; arrays in the options may be of any framework."""
        boundary = self._boundary
        self._infos.clear()
        self.env.reset(seed=seed, options=boundary.convert_options(options))
        boundary.refresh_action_space()

    @eager
    def step(self, action: Any) -> None:
        """Take the selected agent's step, with an action of any framework, or None if it is done."""
        self._infos.clear()
        agent = None if action is None else getattr(self.env, "agent_selection", None)
        if agent is None:  # nothing to convert, or the environment will say why nobody is selected
            self.env.step(action)
            return
        boundary = self._by_agent.of(agent)
        try:
            self.env.step(boundary.convert_action(action))
        except Exception as error:
            boundary.add_note(error, action)
            raise

    @eager
    def observe(self, agent: Any) -> Any:
        """Return what an agent sees now."""
        return self._boundary.convert_reset(self._with_cast(agent, [(self.env.observe(agent), {})]))[0]

    @eager
    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return the selected agent's observation, cumulative reward, terminated, truncated and info."""
        box = self._with_cast(None, [self.env.last(observe)])
        obs, reward, terminated, truncated, info = self._boundary.convert_step(box)
        if info:
            info = self._infos.setdefault(self.env.agent_selection, info)
        return obs, reward, terminated, truncated, info

    def _with_cast(self, agent: Any, box: list[Any]) -> list[Any]:
        """Cast an agent's observation, if an option asks for it; None is the selected agent."""
        self._boundary.has_answered = True
        if self._prepare:  # whose functions take only the observations of all agents together
            self._boundary.learn_from(box)
            obs, *rest = box.pop()
            if obs is not None:
                space = self.env.observation_space(self.env.agent_selection if agent is None else agent)
                obs = cast_to_space(space, obs, share=self._boundary.outgoing.copy is False)
            box.append((obs, *rest))
        return box

    @property
    def infos(self) -> dict[Any, Any]:
        """The infos, by agent."""
        return {agent: self._info(agent, info) for agent, info in self.env.infos.items()}

    def _info(self, agent: Any, info: Any) -> Any:
        if agent not in self._infos:
            self._infos[agent] = self._boundary.convert_reset([(None, info)])[1]
        return self._infos[agent]

    if not TYPE_CHECKING:
        rewards = _by_agent("rewards", 1, "The rewards of the last step, by agent.")
        _cumulative_rewards = _by_agent("_cumulative_rewards", 1, "The rewards since each agent's last step.")
        terminations = _by_agent("terminations", 2, "Whether the episode has terminated, by agent.")
        truncations = _by_agent("truncations", 3, "Whether the episode was truncated, by agent.")
