"""How arrays get from one framework to another here: the route, whether memory is shared, and the time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from arrayferry import convert, explain
from arrayferry.errors import FerryError
from arrayferry.testing import at_offset

__all__ = ["Pair", "examine"]

_LAPS = 20


@dataclass(frozen=True)
class Pair:
    """What happens to arrays on their way from one framework to another; times are in seconds."""

    source: str
    target: str
    route: tuple[str, ...] = ()
    temporary: str = ""  # what happens to 1 MB that nobody else holds: `taken over` or `copied`
    shares: str = ""  # whether copy=False works: `yes`, `no`, or `if aligned` to 64 bytes
    small: float = 0.0  # for 16 bytes that somebody else holds, so that they are copied
    large: float = 0.0  # the same for 1 MB
    problem: str = ""  # why the pair does not work


def examine(source: str, target: str) -> Pair:
    """Convert arrays from one framework to another, and report what happens."""
    try:
        [leaf] = explain(_array(source, 1 << 20), target).leaves
        if leaf.memory == "refused":
            return Pair(source, target, problem=leaf.why)
        small, large = (_seconds(_array(source, nbytes), target) for nbytes in (16, 1 << 20))
        return Pair(source, target, leaf.route, leaf.memory, _shares(source, target), small, large)
    except FerryError as error:
        return Pair(source, target, problem=error.what)


def _array(framework: str, nbytes: int) -> Any:
    array = np.zeros(nbytes // 4, np.float32)
    return array if framework == "numpy" else convert(array, framework, copy=True)


def _seconds(array: Any, target: str) -> float:
    """Return the shortest of many times, in seconds: other processes only ever add to a time."""
    return min(explain(array, target).seconds["out"] for _ in range(_LAPS))


def _shares(source: str, target: str) -> str:
    """Return whether `copy=False` works: for aligned memory, and for memory that is not."""
    arrays = []
    for offset in (0, 16):
        with suppress(FerryError):  # not every framework can hold both
            arrays.append(convert(at_offset(np.zeros(64, np.float32), offset), source, copy=False))
    works = [explain(array, target, copy=False).ok for array in arrays or [_array(source, 256)]]
    return "yes" if all(works) else "if aligned" if any(works) else "no"
