"""gymnax: `env, params = gymnax.make(...)`. Before 1.0 it does not tell truncation from termination."""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayferry.envs._interface import Interface
from arrayferry.envs._spaces import from_gymnax

__all__ = ["interface"]


def interface(env: Any, params: Any) -> Interface:
    """Describe an environment by `step_env`, which, unlike `step`, does not reset by itself."""
    params = env.default_params if params is None else params

    def reset(key: Any) -> tuple[Any, Any, dict[str, Any]]:
        obs, state = env.reset_env(key, params)
        return state, obs, {}

    def step(key: Any, state: Any, action: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        obs, state, reward, done, info = env.step_env(key, state, action, params)
        return state, obs, reward, *_ends(env, state, params, done), info

    observations, actions = env.observation_space(params), env.action_space(params)
    return Interface(reset, step, from_gymnax(observations), from_gymnax(actions), f"gymnax/{env.name}")


def _ends(env: Any, state: Any, params: Any, done: Any) -> tuple[Any, Any]:
    """Return whether an episode is terminated, and whether it is truncated."""
    if hasattr(env, "is_truncated"):
        return done, env.is_truncated(state, params)
    if not hasattr(state, "time") or not hasattr(params, "max_steps_in_episode"):
        return done, False
    truncated = done & (state.time >= params.max_steps_in_episode)
    # Ask again without the limit: the episode may have terminated in the very last step.
    ended = env.is_terminal(state, params.replace(max_steps_in_episode=np.inf))
    return done & (ended | ~truncated), truncated
