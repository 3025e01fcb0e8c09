"""How arrays get from one framework to another here: the route, whether memory is shared, and the time."""

from __future__ import annotations

from dataclasses import dataclass
from timeit import repeat
from typing import Any

import numpy as np

from arrayferry import Converter, explain
from arrayferry.errors import FerryError
from arrayferry.testing import at_offset

__all__ = ["Pair", "examine"]


@dataclass(frozen=True)
class Pair:
    """What happens to arrays on their way from one framework to another; times are in seconds."""

    source: str
    target: str
    route: tuple[str, ...] = ()
    temporary: str = ""  # what happens to 1 MB that nobody else holds: `taken over` or `copied`
    shares: str = ""  # whether copy=False works: `yes`, `no`, or `if aligned` to 64 bytes
    small: float = 0.0  # for 16 bytes that somebody else holds, so that they are copied
    large: float = 0.0  # for 1 MB of them
    problem: str = ""  # why the pair does not work


def examine(source: str, target: str) -> Pair:
    """Convert arrays from one framework to another, and report what happens."""
    try:
        [leaf] = explain(_array(source, 1 << 20), target).leaves
        if leaf.memory == "refused":
            return Pair(source, target, problem=leaf.why)
        small, large = _array(source, 16), _array(source, 1 << 20)
        times = _seconds(small, target, calls=50), _seconds(large, target, calls=1)
        return Pair(source, target, leaf.route, leaf.memory, _shares(large, target), *times)
    except FerryError as error:
        return Pair(source, target, problem=error.what)


def _array(framework: str, nbytes: int) -> Any:
    array = np.zeros(nbytes // 4, np.float32)
    return array if framework == "numpy" else Converter(framework)(array)


def _seconds(array: Any, target: str, calls: int) -> float:
    """Return the seconds of a conversion, the best of many laps that are too short to be interrupted."""
    convert = Converter(target)
    return min(repeat(lambda: convert(array), number=calls, repeat=200)) / calls


def _shares(array: Any, target: str) -> str:
    is_numpy = isinstance(array, np.ndarray)
    arrays = [at_offset(array, 16), at_offset(array, 0)] if is_numpy else [array]
    works = [_works(Converter(target, copy=False), one) for one in arrays]
    return "yes" if all(works) else "if aligned" if any(works) else "no"


def _works(share: Converter, array: Any) -> bool:
    try:
        share(array)
    except FerryError:
        return False
    return True
