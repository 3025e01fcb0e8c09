"""JaxMARL: `env = jaxmarl.make(...)`. It has one `done` for each agent, and one for all."""

from __future__ import annotations

from inspect import signature
from typing import Any

from gymnasium import spaces

from arrayferry._frameworks.jax import jnp
from arrayferry.envs._interface import Interface, unlimited
from arrayferry.envs._spaces import gymnasium_space

__all__ = ["interface"]


def interface(env: Any, params: Any) -> Interface:
    """Describe an environment by `reset` and `step_env`, which, unlike `step`, does not reset by itself."""
    agents = tuple(env.agents)
    endless = unlimited(env, ("max_steps", "episode_length"), ("_env", "env"))
    # The limit of these is not an attribute, and nothing else ends their episodes.
    always_limited = hasattr(env, "num_outer_steps")

    def reset(key: Any) -> tuple[Any, Any, dict[str, Any]]:
        obs, state = env.reset(key)
        return state, {agent: obs[agent] for agent in agents}, _masks(env, state)

    def step(key: Any, state: Any, actions: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        *_, ends, _ = endless.step_env(key, state, actions)
        obs, state, rewards, dones, infos = env.step_env(key, state, actions)
        done, ended = (jnp.stack([of[agent] | of["__all__"] for agent in agents]) for of in (dones, ends))
        terminated = done & ended & (not always_limited)
        reward = jnp.stack([rewards[agent] for agent in agents])
        info = {**infos, **_masks(env, state)}
        return state, {agent: obs[agent] for agent in agents}, reward, terminated, done & ~terminated, info

    def space_of(kind: str) -> spaces.Space[Any]:
        return spaces.Dict({agent: gymnasium_space(_space(env, kind, agent)) for agent in agents})

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


def _masks(env: Any, state: Any) -> dict[str, Any]:
    """Return which actions each agent may take, if the environment says so."""
    if not hasattr(env, "get_avail_actions"):
        return {}
    try:
        return {"action_mask": dict(env.get_avail_actions(state))}
    except NotImplementedError:
        return {}
