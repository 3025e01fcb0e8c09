"""The part that is written in C, where it was built and where counts prove; None where all is Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Sized
from contextlib import suppress
from importlib import import_module
from typing import Any

from arrayferry._core.framework import Array
from arrayferry._core.ownership import COUNTS_PROVE

__all__ = ["copied", "snapshots", "swift"]

swift: Any = None
if COUNTS_PROVE and not os.environ.get("ARRAYFERRY_PURE_PYTHON"):
    with suppress(ImportError):
        swift = import_module("arrayferry._core._swift")


def _copied(array: Array) -> Array | None:
    """A copy of an array that is contiguous and in memory; None for any other, or where it is in doubt."""
    return array.copy() if array.flags.c_contiguous and array.__array_interface__["data"][0] else None


def _snapshots(
    see: Callable[[Any], Array], memory: Callable[[Any], Sized], address: Callable[[Any], int]
) -> Callable[[Any], Array | None]:
    """What makes a copy of another framework's array, as `copied` does.

    Args:
        see: from the array to NumPy's, on the same memory.
        memory: to all of the memory that it is a part of: as many bytes as its length. It may be too short.
        address: from that memory to where it begins.
    """

    def take(value: Any) -> Array | None:
        try:
            seen, held = see(value), memory(value)
            start, first = address(held), seen.__array_interface__["data"][0]
            is_there = start and start <= first and first + seen.nbytes <= start + len(held)
            return _copied(seen) if is_there else None
        except Exception:  # it is in doubt
            return None

    return take


copied: Callable[[Array], Array | None] = _copied if swift is None else swift.copied
snapshots: Callable[..., Callable[[Any], Array | None]] = (
    _snapshots if swift is None else lambda *how: swift.Snapshot(*how).take
)
