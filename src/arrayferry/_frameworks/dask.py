"""Dask: arrays in chunks, computed when their values are needed.

* a dask array -> computed, even for dask itself: a lazy array would be read later, when it may have changed
* a NumPy array -> `dask.array.from_array` of private memory
* chunks that are not NumPy arrays -> converted by the framework that they belong to
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Array, Framework, Source, Target
from arrayferry._core.registry import framework_of, source_of

if TYPE_CHECKING:
    import dask.array

_DTYPES = STANDARD | ML_DTYPES


class Dask(Framework):
    """Dask's arrays, which have no devices."""

    name, modules, arrays = "dask", ("dask.array", "dask"), ("dask.array:Array",)

    def source(self, cls: type) -> Source:
        """Return how its arrays are read: they are computed."""
        return Source(read=compute)

    def target(self, device: Any) -> Target:
        """Return how its arrays are made: lazy ones, which hold the values."""
        import dask.array

        # By default, the name is a hash of all values, which takes longer than everything else here.
        return Target(take=partial(dask.array.from_array, name=False), dtypes=lambda: _DTYPES)


def compute(array: dask.array.Array) -> Array | None:
    """Return the values, computed now."""
    values = array.compute()
    if isinstance(values, np.ma.MaskedArray):
        return None  # a mask has no counterpart
    return source_of(values).read(values) if framework_of(type(values)) else np.asarray(values)
