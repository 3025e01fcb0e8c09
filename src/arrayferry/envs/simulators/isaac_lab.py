"""Isaac Lab's environments, which reset by themselves; newer ones also keep final observations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from gymnasium.vector import AutoresetMode

from arrayferry._boundary.autoreset import known_autoreset_mode
from arrayferry._core.convert import ArrayConverter
from arrayferry.envs.simulators.modes import reset_by_ids, step_with
from arrayferry.envs.simulators.simulator import Simulator, choose_mode

__all__ = ["describe_isaac_lab"]


def describe_isaac_lab(env: Any, autoreset_mode: Any, final_obs: bool | None) -> Simulator:
    """Describe an environment of Isaac Lab, in any of Gymnasium's wrappers.

    With `final_obs=True`, one that does not keep final observations is observed just before it resets; where
    observations have a history, their newest frame is missing.
    """
    base = env.unwrapped
    mode = choose_mode(base, autoreset_mode, known_autoreset_mode(base.metadata.get("autoreset_mode", _SAME)))
    asks = mode is _SAME and final_obs is not False
    if hasattr(base.cfg, "compute_final_obs"):
        step: Any = partial(step_with, env, base.cfg, {"compute_final_obs": asks})
    elif final_obs and not hasattr(base, "_ALL_ENV_MASK"):  # which the Warp variant resets by
        reset = partial(_observe_and_reset, base, ArrayConverter("torch", copy=True), base._reset_idx)
        step = partial(step_with, env, base, {"_reset_idx": reset})
    else:
        asks, step = False, env.step
    return Simulator(env, step, mode, True, _reset_rows(base), has_final_obs=asks)


_SAME = AutoresetMode.SAME_STEP


def _observe_and_reset(base: Any, copy: Any, reset: Callable[[Any], None], ids: Any) -> None:
    manager = getattr(base, "observation_manager", None)
    final_obs = copy(base._get_observations() if manager is None else manager.compute())
    reset(ids)
    base.extras.update(final_obs=final_obs)


def _reset_rows(base: Any) -> Callable[[Any, Any, dict[str, Any]], Any] | None:
    """Return a function that resets some environments, where that leaves the others alone."""
    # A reset of some adds a frame to the histories of all.
    histories = getattr(getattr(base, "observation_manager", None), "_group_obs_term_history_buffer", {})
    if "env_ids" not in inspect.signature(base.reset).parameters or any(histories.values()):
        return None
    return partial(reset_by_ids, base)
