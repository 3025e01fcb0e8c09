"""The leaves of a value: the walk of `convert`, with a visitor that writes down what becomes of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from arrayferry._core import ownership
from arrayferry._core.containers import container_of
from arrayferry._core.convert import Converter
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import Container, Slot, unchanged, walk
from arrayferry._explain.leaf import Leaf, leaf_of
from arrayferry._explain.reasons import reason_to_copy
from arrayferry.errors import FerryError

__all__ = ["fastest", "flat", "record"]

# How often something is done to find the time that it takes.
_LAPS = 5


def record(converter: Converter, box: list[Any], names: Sequence[str], holder: str) -> list[Leaf]:
    """Convert the values in a list that alone holds them, and return what became of each leaf.

    A leaf that is refused is written down like the others, and the walk goes on.
    """
    leaves: list[Leaf] = []

    def visit(path: str, value: Any, references: int | None, action: Callable[[Any, bool], Any]) -> Any:
        reason = reason_to_copy(converter, value, references)
        mine = references is not None and references <= ownership.unshared
        try:
            found = action(value, mine)
        except FerryError as error:
            leaves.append(leaf_of(path, value, value, converter, reason, holder, error))
            return value
        if type(found) is not Container:
            leaf = leaf_of(path, value, found, converter, reason, holder)
            leaves.append(_timed(leaf, value, converter))
        return found

    walk(box, [*map(Slot, names)], converter._actions, visit=visit)
    return leaves


def _timed(leaf: Leaf, value: Any, converter: Converter) -> Leaf:
    """Return the leaf with the time that it takes alone, on the path of every conversion."""
    # What was taken over is handed in as it came: in a box that alone holds it.
    is_taken = leaf.memory == "taken over" and isinstance(value, np.ndarray)
    new_box = lambda: [value.copy() if is_taken else value]  # noqa: E731
    return replace(leaf, seconds=fastest(converter._convert_box, new_box))


def fastest(convert_box: Callable[[list[Any]], Any], new_box: Callable[[], list[Any]]) -> float:
    """Return the least seconds that a conversion takes: what else runs only ever adds to a time."""
    laps = []
    for _ in range(_LAPS):
        box = new_box()
        start = perf_counter()
        convert_box(box)
        laps.append(perf_counter() - start)
    return min(laps)


def flat(value: Any, name: str) -> dict[str, Any]:
    """Return the leaves of a value by their paths.

    >>> flat({"a": [1, 2]}, "x")
    {'x["a"][0]': 1, 'x["a"][1]': 2}
    """
    found: dict[str, Any] = {}
    actions = TypeCache(lambda cls: container_of(cls) or unchanged)
    walk([value], [Slot(name)], actions, visit=lambda path, leaf, *_: found.update({path: leaf}))
    return found
