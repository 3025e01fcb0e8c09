"""mjlab's `ManagerBasedRlEnv`: stepped without its own autoreset, it shows final observations exactly."""

from __future__ import annotations

from functools import partial
from typing import Any

from gymnasium.vector import AutoresetMode

from arrayferry.envs.simulators.modes import reset_by_ids, step_with
from arrayferry.envs.simulators.simulator import Simulator, choose_mode

__all__ = ["describe_mjlab"]


def describe_mjlab(env: Any, autoreset_mode: Any, final_obs: bool | None) -> Simulator:
    """Describe an environment of mjlab; with `final_obs=False`, it resets by itself."""
    mode = choose_mode(env, autoreset_mode, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)
    resets_itself = mode is AutoresetMode.SAME_STEP and final_obs is False
    step = partial(step_with, env, env.unwrapped.cfg, {"auto_reset": resets_itself})
    return Simulator(env, step, mode, resets_itself, partial(reset_by_ids, env))
