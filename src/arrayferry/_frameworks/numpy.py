"""NumPy: the framework that all others can be seen from.

* a NumPy array -> itself where it is provably nobody else's, else a copy
* bfloat16 and float8 -> NumPy arrays of an ml_dtypes dtype
* read-only, big-endian, unaligned, flipped, memory-mapped -> a plain writable array
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Array, FastPaths, Framework

DTYPES = STANDARD | ML_DTYPES


def to_numpy(array: Array, share: bool) -> Array:
    """Itself."""
    return array


def from_numpy(array: Array, device: Any, share: bool) -> Array:
    """Itself, without the subclass."""
    return np.asarray(array)


def from_private(device: Any) -> Callable[[Array], Array]:
    """Return what returns the array itself."""
    return lambda array: array


FRAMEWORK = Framework(
    name="numpy",
    modules=("numpy",),
    arrays=("numpy:ndarray",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=lambda device: DTYPES,
    distributions=("numpy",),
    _fast=FastPaths(from_private=from_private, plain_dtypes=lambda device: STANDARD, aliases=True),
)
