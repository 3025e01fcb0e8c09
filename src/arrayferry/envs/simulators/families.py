"""The simulators of each family: how they are recognised, and how they are driven."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

from arrayferry._boundary.autoreset import known_autoreset_mode
from arrayferry._boundary.detect import layers_of
from arrayferry._core.convert import ArrayConverter
from arrayferry.envs.hints import refuse_options
from arrayferry.envs.simulators.simulator import Simulator
from arrayferry.envs.simulators.vector_env import SimulatorVectorEnv
from arrayferry.errors import UnsupportedError

__all__ = [
    "is_batched",
    "is_vec_env",
    "isaac_lab",
    "maniskill",
    "mjlab",
    "open_simulator",
    "unknown",
    "vec_env",
]

_SAME, _DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


def open_simulator(
    describe: Callable[[Any, Any, bool | None], Simulator],
    env: Any,
    params: Any,
    num_envs: int | None,
    autoreset_mode: Any,
    final_obs: bool | None = None,
) -> SimulatorVectorEnv:
    """Return a simulator as a vector environment; one of the functions below describes it.

    The other arguments are those of `as_gymnasium`.
    """
    refuse_options(env, num_envs=num_envs, params=params)
    for layer in layers_of(env):
        if isinstance(layer, (VectorWrapper, TimeLimit, RecordEpisodeStatistics)):
            what = f"{type(layer).__name__} is around a simulator, and would miss its resets"
            raise UnsupportedError(what, "pass the simulator inside it, and put wrappers around what you get")
    envs = SimulatorVectorEnv(describe(env, autoreset_mode, final_obs))
    if final_obs and not envs.has_final_obs:
        raise UnsupportedError(f"{envs.name} has no final observations to ask for", "leave final_obs out")
    return envs


def _choose_mode(env: Any, asked: Any, *possible: AutoresetMode) -> AutoresetMode:
    """Return the autoreset mode that was asked for; by default, the first of those that are possible."""
    mode = possible[0] if asked is None else known_autoreset_mode(asked)
    if mode not in possible:
        what = f"{type(env).__name__} has the autoreset mode {' or '.join(each.name for each in possible)}"
        raise UnsupportedError(f"{what}, not {mode.name}", f"pass AutoresetMode.{possible[0].name}")
    return mode


def mjlab(env: Any, autoreset_mode: Any, final_obs: bool | None) -> Simulator:
    """Describe mjlab's `ManagerBasedRlEnv`, which shows final observations where it does not reset by itself.

    It does so with `final_obs=False`.
    """
    mode = _choose_mode(env, autoreset_mode, _SAME, _DISABLED)
    resets_itself = mode is _SAME and final_obs is False
    setting = env.unwrapped.cfg, "auto_reset", resets_itself
    return Simulator(env, mode, resets_itself, setting, "env_ids")


def maniskill(env: Any, autoreset_mode: Any, final_obs: bool | None) -> Simulator:
    """Describe ManiSkill's `BaseEnv` in any of its wrappers, or its `ManiSkillVectorEnv`.

    The latter is stepped without its own autoreset. Final observations cost them nothing.
    """
    base = env.unwrapped
    mode = _choose_mode(base, autoreset_mode, _SAME, _DISABLED)
    if mode is _SAME and base.num_envs > 1 and base.reconfiguration_freq:
        what = f"{type(base).__name__} has a reconfiguration_freq, so that it resets only as a whole"
        raise UnsupportedError(what, "make it with reconfiguration_freq=0, or pass AutoresetMode.DISABLED")
    setting = (env, "auto_reset", False) if isinstance(env, VectorEnv) else None
    return Simulator(env, mode, False, setting, "env_idx", takes_seed_lists=True)


def isaac_lab(env: Any, autoreset_mode: Any, final_obs: bool | None) -> Simulator:
    """Describe an environment of Isaac Lab, which resets by itself, in any of Gymnasium's wrappers.

    Newer ones keep final observations. With `final_obs=True`, an older one is observed just before it resets;
    where observations have a history, their newest frame is missing.
    """
    base: Any = env.unwrapped
    setting: Any = None
    declared = known_autoreset_mode(base.metadata.get("autoreset_mode", _SAME))
    mode = _choose_mode(base, autoreset_mode, declared)
    asks = mode is _SAME and final_obs is not False
    if hasattr(base.cfg, "compute_final_obs"):
        setting = base.cfg, "compute_final_obs", asks
    elif final_obs and not hasattr(base, "_ALL_ENV_MASK"):  # which the Warp variant resets by
        reset = partial(_observe_and_reset, base, ArrayConverter("torch", copy=True), base._reset_idx)
        setting = base, "_reset_idx", reset
    else:
        asks = False
    # A reset of some adds a frame to the histories of all.
    histories = getattr(getattr(base, "observation_manager", None), "_group_obs_term_history_buffer", {})
    takes_ids = "env_ids" in inspect.signature(base.reset).parameters and not any(histories.values())
    return Simulator(env, mode, True, setting, "env_ids" if takes_ids else None, has_final_obs=asks)


def _observe_and_reset(base: Any, copy: Any, reset: Callable[[Any], None], ids: Any) -> None:
    manager = getattr(base, "observation_manager", None)
    final_obs = copy(base._get_observations() if manager is None else manager.compute())
    reset(ids)
    base.extras.update(final_obs=final_obs)


# ---- rsl_rl's VecEnv, which many look like, and environments of no known class ----------------------------

_VEC_ENV = "num_actions max_episode_length episode_length_buf get_observations step reset".split()


def is_many(env: Any) -> bool:
    """Return whether something has a number of environments, and is not Gymnasium's vector of them."""
    if isinstance(env, (VectorEnv, type)) or not isinstance(getattr(env, "num_envs", None), Integral):
        return False
    return hasattr(env, "step") and hasattr(env, "reset")


def is_vec_env(env: Any) -> bool:
    """Return whether an object looks like rsl_rl's `VecEnv`; only its first step tells for sure."""
    return is_many(env) and all(hasattr(env, name) for name in _VEC_ENV)


def vec_env(env: Any, autoreset_mode: Any, final_obs: bool | None) -> Simulator:
    """Describe an environment whose step returns an observation, a reward, who is done, and extras."""
    if not hasattr(env, "reset"):
        raise UnsupportedError(f"{type(env).__name__} has no reset()", "add one that returns observations")
    return Simulator(env, _choose_mode(env, autoreset_mode, _SAME))


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


def unknown(env: Any, autoreset_mode: Any, final_obs: bool | None) -> Simulator:
    """Describe an environment of which only the user knows how it resets."""
    base = getattr(env, "unwrapped", env)
    declared = (getattr(base, "metadata", None) or {}).get("autoreset_mode")
    if autoreset_mode is None and declared is None:
        line = "arrayferry.envs.as_gymnasium(env, autoreset_mode=AutoresetMode.SAME_STEP)"
        what = f"{type(base).__name__} returns batches, but does not say what it does when an episode ends"
        hint = f"pass {line} if the same step returns the next episode's first observation, "
        raise UnsupportedError(what, f"{hint}NEXT_STEP if the next step does, DISABLED if neither does")
    mode = _choose_mode(base, declared if autoreset_mode is None else autoreset_mode, *AutoresetMode)
    return Simulator(env, mode, framework=None)
