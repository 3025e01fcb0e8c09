"""`copy_within` for the frameworks whose arrays copy and cast like NumPy's, and have its dtypes."""

from __future__ import annotations

from typing import Any

from arrayferry._core.dtypes import ML_DTYPES, STANDARD, cast_for
from arrayferry.errors import SharingError

__all__ = ["copy_within"]


def copy_within(array: Any, device: Any, dtype: str | None, share: bool) -> Any:
    """Return a copy that is lazy or sparse as the original; with `share`, the array itself."""
    cast = cast_for(array.dtype, STANDARD | ML_DTYPES, dtype)
    if cast is None:
        return None
    if share:
        if not cast.same:
            raise SharingError(f"{array.dtype} is not {cast.dtype}", "copy=None, which makes it so")
        return array
    return array.copy() if cast.same else array.astype(cast.dtype)
