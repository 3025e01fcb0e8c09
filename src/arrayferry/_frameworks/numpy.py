"""NumPy: the framework that every other one can be converted to and from.

* a NumPy array -> itself where nobody else can see it, otherwise a copy
* bfloat16 and float8 -> NumPy arrays of an ml_dtypes dtype
* read-only, big-endian, unaligned, flipped, memory-mapped -> a plain writable array
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Array, Devices, FastPaths, Framework, only_cpu

__all__ = ["FRAMEWORK"]


def to_numpy(array: Array, share: bool) -> Array:
    """Return the array itself."""
    return array


def from_numpy(array: Array, device: Any, share: bool) -> Array:
    """Return the array itself, as a plain `np.ndarray` if it is of a subclass."""
    return np.asarray(array)


_DTYPES = STANDARD | ML_DTYPES


FRAMEWORK = Framework(
    name="numpy",
    modules=("numpy",),
    arrays=("numpy:ndarray",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=lambda device: _DTYPES,
    devices=Devices(find=only_cpu("NumPy")),
    distributions=("numpy",),
    _fast=FastPaths(
        from_private=lambda device: lambda array: array,
        plain_dtypes=lambda device: STANDARD,
        aliases=True,
    ),
)
