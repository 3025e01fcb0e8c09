"""ManiSkill's `BaseEnv`, and `ManiSkillVectorEnv`, which is stepped without its own autoreset."""

from __future__ import annotations

from functools import partial
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv

from arrayferry.envs.simulators.modes import step_with
from arrayferry.envs.simulators.simulator import Simulator, choose_mode
from arrayferry.errors import UnsupportedError

__all__ = ["describe_maniskill"]


def describe_maniskill(env: Any, autoreset_mode: Any, final_obs: bool | None) -> Simulator:
    """Describe an environment of ManiSkill, in any of its wrappers; final observations cost it nothing."""
    base = env.unwrapped
    mode = choose_mode(base, autoreset_mode, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)
    if mode is AutoresetMode.SAME_STEP and base.num_envs > 1 and base.reconfiguration_freq:
        what = f"{type(base).__name__} has a reconfiguration_freq, so that it resets only as a whole"
        raise UnsupportedError(what, "make it with reconfiguration_freq=0, or pass AutoresetMode.DISABLED")
    step = partial(step_with, env, env, {"auto_reset": False}) if isinstance(env, VectorEnv) else env.step
    return Simulator(env, step, mode, False, partial(_reset_rows, env), takes_seed_lists=True)


def _reset_rows(env: Any, ids: Any, seed: Any, options: dict[str, Any]) -> Any:
    return env.reset(seed=seed, options={**options, "env_idx": ids})
