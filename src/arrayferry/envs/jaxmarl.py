"""JaxMARL: `env = jaxmarl.make(...)`. It has one `done` for each agent, and one for all."""

from __future__ import annotations

from inspect import signature
from typing import Any

from gymnasium import spaces

from arrayferry.envs._interface import Interface
from arrayferry.envs._spaces import from_gymnax

__all__ = ["interface"]


def interface(env: Any, params: Any) -> Interface:
    """Describe an environment by `reset` and `step_env`, which, unlike `step`, does not reset by itself."""
    agents = tuple(env.agents)

    def reset(key: Any) -> tuple[Any, Any, dict[str, Any]]:
        obs, state = env.reset(key)
        return state, {agent: obs[agent] for agent in agents}, _masks(env, state)

    def step(key: Any, state: Any, actions: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        import jax.numpy as jnp

        obs, state, rewards, dones, infos = env.step_env(key, state, actions)
        done = jnp.stack([dones[agent] | dones["__all__"] for agent in agents])
        truncated = done & _is_late(env, state)
        reward = jnp.stack([rewards[agent] for agent in agents])
        info = {**infos, **_masks(env, state)}
        return state, {agent: obs[agent] for agent in agents}, reward, done & ~truncated, truncated, info

    def space_of(kind: str) -> spaces.Space[Any]:
        return spaces.Dict({agent: from_gymnax(_space(env, kind, agent)) for agent in agents})

    observations, actions = space_of("observation_space"), space_of("action_space")
    world_state = getattr(env, "get_world_state", None)
    name = f"jaxmarl/{env.name}"
    return Interface(reset, step, observations, actions, name, agents=agents, world_state=world_state)


def _space(env: Any, kind: str, agent: str) -> Any:
    """Return an agent's space; the method of some environments, with one space for all, takes no agent."""
    known = getattr(env, f"{kind}s", {})
    if agent in known:
        return known[agent]
    space = getattr(env, kind)
    return space(agent) if signature(space).parameters else space()


def _is_late(env: Any, state: Any) -> Any:
    """Return whether the episode has reached its limit: JaxMARL does not say why an episode is done."""
    limit, time = getattr(env, "max_steps", None), getattr(state, "step", getattr(state, "time", None))
    return False if limit is None or time is None else time >= limit


def _masks(env: Any, state: Any) -> dict[str, Any]:
    """Return which actions each agent may take, if the environment says so."""
    if not hasattr(env, "get_avail_actions"):
        return {}
    try:
        return {"action_mask": dict(env.get_avail_actions(state))}
    except NotImplementedError:
        return {}
