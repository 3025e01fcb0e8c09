"""What the wrappers for vector environments share: one call for all environments, and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers._place import place_of

__all__ = ["call_once", "with_numpy_mask"]


def call_once(vectorized: Any, values: Any, shape: Any, one_by_one: Callable[[Any], Any]) -> Any:
    """Call the function of a vectorized wrapper with a whole batch; of NumPy's, only if it has this shape.

    The elements are those that Gymnasium gets one by one, and so is their dtype.
    """
    function = vectorized.wrapper.func
    if type(values) is np.ndarray and values.shape == shape:
        dtype = values.dtype if vectorized.same_out else vectorized.out.dtype
        return function(values).astype(dtype, casting="same_kind", copy=False)
    return one_by_one(values) if place_of(values) is None else function(values)


def with_numpy_mask(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the options of a reset with a `reset_mask` of NumPy's, which Gymnasium's wrappers take."""
    if not options or place_of(mask := options.get("reset_mask")) is None:
        return options
    return {**options, "reset_mask": to_numpy(mask)}
