"""What is done to the results of an environment before they are converted, when an option asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from gymnasium.vector import VectorEnv

from arrayferry.errors import OptionError
from arrayferry.spaces.casting import cast_to_space
from arrayferry.wrappers._boundary import RESET, STEP, checked

__all__ = ["Prepare", "cast_reset", "cast_step", "chain", "names_space", "with_arrays"]

# From what a step or a reset returned to what is to be converted.
Prepare: TypeAlias = Callable[[Any], tuple[Any, ...]]


def chain(*steps: Prepare | None) -> Prepare | None:
    """Return all steps in one, which can be pickled; None if there are none."""
    wanted = [step for step in steps if step is not None]
    return partial(_prepare_by, wanted) if wanted else None


def _prepare_by(steps: list[Prepare], result: Any) -> tuple[Any, ...]:
    for step in steps:
        result = step(result)
    prepared: tuple[Any, ...] = result
    return prepared


def names_space(dtypes: Any) -> bool:
    """Return whether the option `dtypes` is "space"; raise if it is another text."""
    if isinstance(dtypes, str) and dtypes != "space":
        hint = 'pass "space", or a mapping such as {"float64": "float32"}'
        raise OptionError(f"dtypes={dtypes!r}", hint)
    return isinstance(dtypes, str)


def with_arrays(result: Any) -> tuple[Any, ...]:
    """Return what a step returned, its Python bools as NumPy scalars, so that they become arrays."""
    obs, reward, *flags, info = checked("step", STEP, result)
    return obs, reward, *(np.bool_(flag) if type(flag) is bool else flag for flag in flags), info


def cast_step(env: Any, share: bool, result: Any) -> tuple[Any, ...]:
    """Return what a step returned, its observations in the dtypes of their space, final ones too."""
    obs, *rest, info = checked("step", STEP, result)
    return (
        cast_to_space(env.observation_space, obs, "obs", share),
        *rest,
        _with_cast_final(env, share, info),
    )


def cast_reset(env: Any, share: bool, result: Any) -> tuple[Any, ...]:
    """Return what a reset returned, its observation in the dtypes of its space."""
    obs, info = checked("reset", RESET, result)
    return cast_to_space(env.observation_space, obs, "obs", share), info


def _with_cast_final(env: Any, share: bool, info: Any) -> Any:
    is_vector = isinstance(env, VectorEnv) and isinstance(info, dict)
    final = info.get("final_obs") if is_vector else None
    if not isinstance(final, np.ndarray) or final.dtype != object:
        return info
    cast = np.empty(final.shape, object)
    for index, row in enumerate(final):
        path = f'info["final_obs"][{index}]'
        cast[index] = None if row is None else cast_to_space(env.single_observation_space, row, path, share)
    return {**info, "final_obs": cast}
