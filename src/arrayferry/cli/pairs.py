"""Every pair of frameworks here: the route, whether memory is shared, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from arrayferry._core.convert import Converter
from arrayferry._explain.leaves import record
from arrayferry.cli.measure import measure
from arrayferry.errors import FerryError
from arrayferry.testing import at_offset

__all__ = ["LARGE", "SMALL", "Pair", "look_at", "memcpy_seconds"]

SMALL, LARGE = 16, 1 << 20
_LAPS, _SECONDS = 5, 0.002


@dataclass(frozen=True)
class Pair:
    """One way from a framework to another.

    Attributes:
        source: where the array comes from.
        target: where it goes.
        route: the frameworks on the way.
        fresh: what becomes of an array that nobody else holds: `taken over` or `copied`.
        shares: whether `copy=False` works for it: `yes`, `no`, or `if aligned` to 64 bytes.
        small: seconds for 16 bytes that somebody else holds, so that they are copied.
        large: the same for 1 MB.
        problem: why there is nothing to say about it; empty if there is.
    """

    source: str
    target: str
    route: tuple[str, ...] = ()
    fresh: str = ""
    shares: str = ""
    small: float = 0.0
    large: float = 0.0
    problem: str = ""

    @property
    def bandwidth(self) -> float:
        """Bytes a second, of the megabyte."""
        return LARGE / self.large if self.large else 0.0


def look_at(source: str, target: str) -> Pair:
    """Send arrays from one to the other, and say what was seen."""
    there, convert = Converter(source), Converter(target)

    def array(nbytes: int) -> Any:
        plain = np.zeros(nbytes // 4, np.float32)
        return plain if source == "numpy" else there(plain)

    try:
        leaf = record(convert, [array(LARGE)], ("value",), "somebody")[0]
        if leaf.memory == "refused":
            return Pair(source, target, problem=leaf.why)
        small, large = array(SMALL), array(LARGE)
        steps = {"small": lambda: convert(small), "large": lambda: convert(large)}
        best = measure(steps, _LAPS, _SECONDS)
        shares = _sharing(Converter(target, copy=False), large)
        return Pair(source, target, leaf.route, leaf.memory, shares, best["small"], best["large"])
    except FerryError as error:
        return Pair(source, target, problem=error.what)


def _sharing(share: Converter, array: Any) -> str:
    if not isinstance(array, np.ndarray):
        return "yes" if _works(share, array) else "no"
    if _works(share, at_offset(array, 16)):
        return "yes"
    return "if aligned" if _works(share, at_offset(array, 0)) else "no"


def _works(share: Converter, array: Any) -> bool:
    try:
        share(array)
    except FerryError:
        return False
    return True


def memcpy_seconds() -> float:
    """Seconds that it takes to copy the megabyte, and do nothing else."""
    source, target = np.zeros(LARGE, np.uint8), np.empty(LARGE, np.uint8)
    return measure({"memcpy": lambda: np.copyto(target, source)}, 3 * _LAPS, _SECONDS)["memcpy"]
