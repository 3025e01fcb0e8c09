"""What the wrappers for vector environments share: one call for all environments, and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arrayferry._boundary.autoreset import mask_of
from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers._compute.array_context import context_of

__all__ = ["call_once", "reset_rows", "with_numpy_mask"]


def call_once(vectorized: Any, values: Any, shape: Any, one_by_one: Callable[[Any], Any]) -> Any:
    """Call a vectorized wrapper's function with a whole batch; a NumPy batch only if it has this shape.

    The elements and their dtype are those that Gymnasium gets one by one.
    """
    function = vectorized.wrapper.func
    if type(values) is np.ndarray and values.shape == shape:
        dtype = values.dtype if vectorized.same_out else vectorized.out.dtype
        return function(values).astype(dtype, casting="same_kind", copy=False)
    return one_by_one(values) if context_of(values) is None else function(values)


def with_numpy_mask(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the options of a reset with a NumPy `reset_mask`, which Gymnasium's wrappers need."""
    if not options or context_of(mask := options.get("reset_mask")) is None:
        return options
    return {**options, "reset_mask": to_numpy(mask)}


def reset_rows(envs: Any, seed: Any, options: dict[str, Any] | None) -> tuple[Any, np.ndarray[Any, Any]]:
    """Reset the environments of a mask, or all; return the result, and which were reset."""
    options = with_numpy_mask(options)
    mask = mask_of(options, envs.num_envs)
    # A copy, because Gymnasium's environments remove the mask from it.
    result = envs.reset(seed=seed, options=options and {**options})
    return result, np.ones(envs.num_envs, bool) if mask is None else mask
