"""PyData Sparse: arrays that store what differs from their fill value.

* COO, GCXS, DOK -> dense, with any fill value; to sparse itself -> a copy of the same format
* an array -> `sparse.COO.from_numpy`
* -0.0 and NaN are not zero: they are stored
* bfloat16 and float8 -> float32: `from_numpy` would take their -0.0 for zero
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arrayferry._core.dtypes import STANDARD
from arrayferry._core.framework import Array, Framework
from arrayferry._frameworks._numpy_dtypes import copy_within
from arrayferry.errors import SharingError

if TYPE_CHECKING:
    import sparse


def to_numpy(array: sparse.SparseArray, share: bool) -> Array:
    """A fresh dense array."""
    if share:
        raise SharingError("a sparse array has no dense memory to share", "copy=None, which makes it dense")
    dense: Array = array.todense()
    return dense


def from_numpy(array: Array, device: Any, share: bool) -> sparse.COO:
    """The coordinates and values of what is not zero."""
    import sparse

    if share:
        raise SharingError("a sparse array cannot share dense memory", "copy=None")
    return sparse.COO.from_numpy(array)


FRAMEWORK = Framework(
    name="sparse",
    modules=("sparse",),
    arrays=("sparse:SparseArray",),
    distributions=("sparse",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    copy_within=copy_within,
    dtypes=lambda device: STANDARD,
)
