"""Environments of no known class whose values are batches, and rsl_rl's `VecEnv`, which many look like."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode, VectorEnv

from arrayferry.envs.simulators.simulator import Simulator, choose_mode
from arrayferry.errors import UnsupportedError

__all__ = ["describe_unknown", "describe_vec_env", "is_batched", "is_like_vec_env", "is_many"]

_VEC_ENV = "num_actions max_episode_length episode_length_buf get_observations step reset".split()


def is_many(env: Any) -> bool:
    """Return whether something has a number of environments, and is not Gymnasium's vector of them."""
    if isinstance(env, (VectorEnv, type)) or not isinstance(getattr(env, "num_envs", None), Integral):
        return False
    return hasattr(env, "step") and hasattr(env, "reset")


def is_like_vec_env(env: Any) -> bool:
    """Return whether an object looks like rsl_rl's `VecEnv`; only its first step tells for sure."""
    return is_many(env) and all(hasattr(env, name) for name in _VEC_ENV)


def describe_vec_env(env: Any, autoreset_mode: Any, final_obs: bool | None) -> Simulator:
    """Describe an environment whose step returns an observation, a reward, who is done, and extras."""
    if not hasattr(env, "reset"):
        raise UnsupportedError(f"{type(env).__name__} has no reset()", "add one that returns observations")
    return Simulator(env, env.step, choose_mode(env, autoreset_mode, AutoresetMode.SAME_STEP), True)


def is_batched(env: Any) -> bool:
    """Return whether something says, or its spaces do, that its values have a row for each environment."""
    if not is_many(env):
        return False
    if getattr(env, "is_vector_env", False) is True or hasattr(env, "single_action_space"):
        return True
    if not isinstance(env, gym.Env):
        return hasattr(env, "num_actions")
    rows = (env.get_wrapper_attr("num_envs"),)
    both = (getattr(env, name, None) for name in ("observation_space", "action_space"))
    return all((getattr(space, "shape", None) or ())[:1] == rows for space in both)


def describe_unknown(env: Any, autoreset_mode: Any, final_obs: bool | None) -> Simulator:
    """Describe an environment of which only the user knows how it resets."""
    base = getattr(env, "unwrapped", env)
    declared = (getattr(base, "metadata", None) or {}).get("autoreset_mode")
    if autoreset_mode is None and declared is None:
        line = "arrayferry.envs.as_gymnasium(env, autoreset_mode=AutoresetMode.SAME_STEP)"
        what = f"{type(base).__name__} returns batches, but does not say what it does when an episode ends"
        hint = f"pass {line} if the same step returns the next episode's first observation, "
        raise UnsupportedError(what, f"{hint}NEXT_STEP if the next step does, DISABLED if neither does")
    mode = choose_mode(base, declared if autoreset_mode is None else autoreset_mode, *AutoresetMode)
    return Simulator(env, env.step, mode, True, framework=None)
