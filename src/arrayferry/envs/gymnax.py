"""gymnax: `env, params = gymnax.make(...)`. Before 1.0 it does not tell truncation from termination."""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayferry.envs._interface import NEVER, Interface
from arrayferry.envs._spaces import gymnasium_space

__all__ = ["interface"]


def interface(env: Any, params: Any) -> Interface:
    """Describe an environment by `step_env`, which, unlike `step`, does not reset by itself."""
    params = env.default_params if params is None else params

    def reset(key: Any) -> tuple[Any, Any, dict[str, Any]]:
        obs, state = env.reset_env(key, params)
        return state, obs, {}

    def step(key: Any, before: Any, action: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        obs, state, reward, done, info = env.step_env(key, before, action, params)
        if hasattr(env, "is_truncated"):
            return state, obs, reward, done, env.is_truncated(state, params), info
        if not hasattr(params, "max_steps_in_episode"):
            return state, obs, reward, done, False, info
        # The same step without the limit: some games keep `done` in their state, so that cannot be asked.
        *_, ended, _ = env.step_env(key, before, action, _unlimited(params))
        is_late = getattr(state, "time", -1) >= params.max_steps_in_episode
        return state, obs, reward, done & ended, done & (is_late | ~ended), info

    own = env.observation_space(params), env.action_space(params)
    observations, actions = map(gymnasium_space, own)
    return Interface(reset, step, observations, actions, f"gymnax/{env.name}")


def _unlimited(params: Any) -> Any:
    """Return parameters with a limit that no episode reaches, and which is an integer if it was one."""
    is_integer = np.asarray(params.max_steps_in_episode).dtype.kind in "iu"
    return params.replace(max_steps_in_episode=NEVER if is_integer else np.inf)
