"""PyData Sparse: arrays that store only what differs from their fill value.

* COO, GCXS, DOK -> a dense array, whatever the fill value; to sparse itself -> a copy in the same format
* a NumPy array -> `sparse.COO.from_numpy`
* -0.0 and NaN -> stored: they are not zero
* bfloat16 and float8 -> float32: `from_numpy` would take their -0.0 for zero
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arrayferry._core.dtypes import STANDARD
from arrayferry._core.framework import Framework, Source, Target

if TYPE_CHECKING:
    import sparse


class Sparse(Framework):
    """Sparse's arrays, which are all on the CPU."""

    name, modules, arrays = "sparse", ("sparse",), ("sparse:SparseArray",)

    def source(self, cls: type) -> Source:
        """Return how its arrays are read: they are made dense."""
        return Source(read=lambda array: array.todense())

    def target(self, device: Any) -> Target:
        """Return how its arrays are made: of the coordinates and values of everything that is not zero."""
        import sparse

        return Target(take=sparse.COO.from_numpy, dtypes=lambda: STANDARD, within=copy)


def copy(array: sparse.SparseArray, dtype: str | None) -> sparse.SparseArray | None:
    """Return a copy in the same format; None if its dtype has no counterpart."""
    new = dtype or array.dtype.name
    if new not in STANDARD:
        return None
    return array.copy() if array.dtype == new else array.astype(new)
