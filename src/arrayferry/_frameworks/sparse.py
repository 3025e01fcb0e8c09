"""PyData Sparse: arrays that store only what differs from their fill value.

* COO, GCXS, DOK -> a dense array, whatever the fill value; to sparse itself -> a copy in the same format
* a NumPy array -> `sparse.COO.from_numpy`
* -0.0 and NaN -> stored: they are not zero
* bfloat16 and float8 -> float32: `from_numpy` would take their -0.0 for zero
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arrayferry._core.dtypes import STANDARD, cast_for
from arrayferry._core.framework import Array, Devices, Framework, only_cpu
from arrayferry.errors import SharingError

if TYPE_CHECKING:
    import sparse

__all__ = ["FRAMEWORK"]


def to_numpy(array: sparse.SparseArray, share: bool) -> Array:
    """Return a fresh dense array."""
    if share:
        raise SharingError(
            "a sparse array has no dense memory to share", "pass copy=None, which makes it dense"
        )
    dense: Array = array.todense()
    return dense


def from_numpy(array: Array, device: Any, share: bool) -> sparse.COO:
    """Return the coordinates and values of everything that is not zero."""
    import sparse

    if share:
        raise SharingError("a sparse array cannot share dense memory", "pass copy=None")
    return sparse.COO.from_numpy(array)


def copy_within(
    array: sparse.SparseArray, device: Any, dtype: str | None, share: bool
) -> sparse.SparseArray | None:
    """Return a copy in the same format; with `share`, the array itself."""
    cast = cast_for(array.dtype, STANDARD, dtype)
    if cast is None:
        return None
    if share:
        if not cast.same:
            raise SharingError(f"{array.dtype} is not {cast.dtype}", "pass copy=None, which converts it")
        return array
    return array.copy() if cast.same else array.astype(cast.dtype)


FRAMEWORK = Framework(
    name="sparse",
    modules=("sparse",),
    arrays=("sparse:SparseArray",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=lambda device: STANDARD,
    devices=Devices(find=only_cpu("sparse")),
    copy_within=copy_within,
    distributions=("sparse",),
)
