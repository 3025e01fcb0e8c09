"""What frameworks have in common whose arrays copy and cast as NumPy's do, and have its dtypes."""

from __future__ import annotations

from typing import Any

from arrayferry._core.dtypes import ML_DTYPES, STANDARD, cast_for
from arrayferry.errors import SharingError


def copy_within(array: Any, device: Any, dtype: str | None, share: bool) -> Any:
    """A copy of the same kind, lazy or sparse as it was; with `share`, the array itself."""
    cast = cast_for(array.dtype, STANDARD | ML_DTYPES, dtype)
    if cast is None:
        return None
    if share:
        if not cast.same:
            raise SharingError(f"{array.dtype} is not {cast.dtype}", "copy=None, which makes it so")
        return array
    return array.copy() if cast.same else array.astype(cast.dtype)
