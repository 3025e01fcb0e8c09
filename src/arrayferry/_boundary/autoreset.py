"""What happens at the end of an episode, and the infos of many environments.

What JAX compiles has the same rules in `envs/_engine.py`, as array operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from arrayferry.errors import OptionError, UnsupportedError
from arrayferry.spaces.members import to_numpy

__all__ = [
    "autoreset_mode_of",
    "final_of",
    "info_rows",
    "is_mask",
    "known_autoreset_mode",
    "mask_of",
    "masked_infos",
    "own_mask",
    "row_of",
    "step_with_autoreset",
]

Info = dict[str, Any]


def known_autoreset_mode(mode: Any) -> AutoresetMode:
    """Return an autoreset mode, given as itself or by its value."""
    try:
        return AutoresetMode(mode)
    except ValueError:
        *others, last = (f'{known} ("{known.value}")' for known in AutoresetMode)
        hint = f"pass {', '.join(others)} or {last}"
        raise OptionError(f"autoreset_mode={mode!r} is not valid", hint) from None


def autoreset_mode_of(env: Any) -> AutoresetMode | None:
    """Return what a vector environment does when an episode ends; None if it does not say."""
    mode = env.metadata.get("autoreset_mode") if isinstance(env, VectorEnv) else None
    return None if mode is None else known_autoreset_mode(mode)


def step_with_autoreset(
    step: Callable[[], Any],
    reset: Callable[[], Any],
    mode: AutoresetMode,
    is_over: bool,
    keep: Callable[[Info], Any] = lambda final: final,
) -> tuple[Any, Any, Any, Any, Info, Any]:
    """Step one environment as a vector environment does.

    Args:
        step: takes the step, and returns its five values.
        reset: resets the environment, and returns the observation and the info.
        mode: what happens when an episode ends.
        is_over: whether the episode was over before the step.
        keep: what to do with the final observation and info before the reset, which may change them.

    Returns:
        The five values of the step, and what `keep` returns, or None if no episode ended and was reset.
    """
    if is_over and mode is not AutoresetMode.SAME_STEP:
        if mode is AutoresetMode.DISABLED:
            raise UnsupportedError("a step of an environment whose episode is over", "reset it first")
        obs, info = reset()
        return obs, 0.0, False, False, info, None
    obs, reward, terminated, truncated, info = step()
    if mode is not AutoresetMode.SAME_STEP or not (terminated or truncated):
        return obs, reward, terminated, truncated, info, None
    final = keep(final_of(obs, info))
    obs, info = reset()
    return obs, reward, terminated, truncated, info, final


def final_of(obs: Any, info: Any) -> Info:
    """Return what the info of a step that also resets says about the episode that is over."""
    return {"final_obs": obs, "final_info": info}


def mask_of(options: Info | None, count: int) -> np.ndarray[Any, Any] | None:
    """Return a copy of `options["reset_mask"]`, which says which environments to reset; None for all."""
    given = (options or {}).get("reset_mask")
    if given is None:
        return None
    mask = np.array(given)
    if mask.shape != (count,) or mask.dtype != bool or not mask.any():
        what = f"reset_mask is {mask.dtype}{list(mask.shape)} with {np.count_nonzero(mask)} True"
        raise OptionError(what, f"pass {count} bools, at least one of them True")
    return mask


# ---- infos of many environments: a row for each, and a mask that says which of them have one ---------------


def masked_infos(info: Info, *sources: tuple[Any, Info]) -> Info:
    """Return infos with a mask for each, as in Gymnasium: `_key` says which environments have `key`.

    Masks are NumPy arrays, as in Gymnasium, and each is an array of its own.

    Args:
        info: the infos of all environments, with zeros where an environment has none.
        sources: a reset, a step, or both: the mask of its environments, and the infos that it returns. They
            may have masks of their own.
    """
    masked: Info = {}
    for key, value in info.items():
        if is_mask(key, info):
            continue
        if having := [(own_mask(mask, key, infos), infos[key]) for mask, infos in sources if key in infos]:
            masked[key] = masked_infos(value, *having) if isinstance(value, dict) else value
            masked[f"_{key}"] = having[0][0] | having[-1][0]
    return masked


def is_mask(key: Any, info: Mapping[str, Any]) -> bool:
    """Return whether a key of an info names the mask of another one."""
    is_named_so = isinstance(key, str) and key[:1] == "_" and key[1:] in info
    return is_named_so and str(getattr(info[key], "dtype", "")) in ("bool", "torch.bool")


def own_mask(mask: Any, key: Any, info: Mapping[str, Any]) -> Any:
    """Return a mask without the environments that an info's own mask of a key leaves out."""
    own = f"_{key}"
    return mask & info[own] if own in info and is_mask(own, info) else mask


def info_rows(infos: Info, count: int) -> list[Info]:
    """Return the infos of a vector environment as one dict for each of its environments."""
    assert isinstance(infos, dict)  # as in Gymnasium: not yet a list
    rows: list[Info] = [{} for _ in range(count)]
    masks = {f"_{key}" for key in infos}  # keys need not be text
    for key, values in infos.items():
        if key in masks:
            continue
        mask = infos.get(f"_{key}")
        mask = [True] * count if mask is None else to_numpy(mask)  # read from its device once
        each = info_rows(values, count) if isinstance(values, dict) else None
        for index, row in enumerate(rows):
            if mask[index]:
                row[key] = row_of(values, index, count) if each is None else each[index]
    return rows


def row_of(values: Any, index: int, count: int) -> Any:
    """Return what belongs to one environment; a value without a row for each belongs to all."""
    if isinstance(values, dict):
        return {key: row_of(value, index, count) for key, value in values.items()}
    if isinstance(values, tuple):
        return tuple(row_of(value, index, count) for value in values)
    if hasattr(values, "shape"):
        return values[index] if tuple(values.shape[:1]) == (count,) else values
    return values[index] if isinstance(values, list) and len(values) == count else values
