"""Dask: arrays in chunks, computed when their values are needed.

* a dask array -> computed, even for dask itself: a lazy array would be read later, when it may have changed
* a NumPy array -> `dask.array.from_array` of private memory
* chunks that are not NumPy arrays -> converted by the framework that they belong to
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Array, Devices, Framework, only_cpu
from arrayferry._core.registry import framework_of
from arrayferry.errors import SharingError

if TYPE_CHECKING:
    import dask.array

__all__ = ["FRAMEWORK"]


def to_numpy(array: dask.array.Array, share: bool) -> Array | None:
    """Return the values, computed now."""
    if share:
        raise SharingError(
            "a dask array has no memory before it is computed", "pass copy=None, or .compute() it"
        )
    values = array.compute()
    if isinstance(values, np.ma.MaskedArray):
        return None  # a mask has no counterpart
    source = None if isinstance(values, np.ndarray) else framework_of(type(values))
    return source.to_numpy(values, False) if source else np.asarray(values)


def from_numpy(array: Array, device: Any, share: bool) -> dask.array.Array:
    """Return a lazy array that holds the values."""
    import dask.array

    if share:
        raise SharingError("dask cannot share this memory: it keeps a copy of its own", "pass copy=None")
    # By default, the name is a hash of all values, which takes longer than everything else here.
    lazy: dask.array.Array = dask.array.from_array(array, name=False)
    return lazy


_DTYPES = STANDARD | ML_DTYPES

FRAMEWORK = Framework(
    name="dask",
    modules=("dask.array", "dask"),
    arrays=("dask.array:Array",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=lambda device: _DTYPES,
    devices=Devices(find=only_cpu("Dask")),
    distributions=("dask",),
)
