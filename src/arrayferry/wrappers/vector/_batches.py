"""What the wrappers for vector environments share: one call for all environments, masks, and rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers._context import context_of, to_context

__all__ = ["call_once", "info_rows", "row_of", "with_numpy_mask"]


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


def info_rows(infos: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the infos of a vector environment as one dict for each of its environments."""
    assert isinstance(infos, dict)  # as in Gymnasium: not yet a list
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    masks = {f"_{key}" for key in infos}  # keys need not be text
    for key, values in infos.items():
        if key in masks:
            continue
        mask = infos.get(f"_{key}")
        mask = [True] * count if mask is None else to_context(None, mask)  # read from its device once
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
        return tuple(row_of(one, index, count) for one in values)
    if hasattr(values, "shape"):
        return values[index] if tuple(values.shape[:1]) == (count,) else values
    return values[index] if isinstance(values, list) and len(values) == count else values
