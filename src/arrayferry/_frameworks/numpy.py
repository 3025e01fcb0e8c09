"""NumPy: the framework that every other one can be converted to and from.

* a NumPy array -> itself where nobody else can see it, otherwise a copy
* bfloat16 and float8 -> NumPy arrays of an ml_dtypes dtype
* read-only, big-endian, unaligned, flipped, memory-mapped -> a plain writable array
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Framework, Source, Target

_DTYPES = STANDARD | ML_DTYPES
_SOURCE = Source(read=lambda array: array, view=lambda array: array)
_TARGET = Target(take=np.asarray, share=np.asarray, dtypes=lambda: _DTYPES, as_is=STANDARD)


class NumPy(Framework):
    """NumPy's arrays, and its only device."""

    name, modules, arrays = "numpy", ("numpy",), ("numpy:ndarray",)

    def source(self, cls: type) -> Source:
        """Return how its arrays are read: as they are."""
        return _SOURCE

    def target(self, device: Any) -> Target:
        """Return how its arrays are made: they are taken."""
        return _TARGET
