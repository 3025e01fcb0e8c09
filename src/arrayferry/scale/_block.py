"""Shared memory that a driver and its workers see as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array

from arrayferry.spaces.structure import has_fixed_shape

__all__ = ["Block", "copy_into", "index_of", "map_arrays", "rows_of"]

Array = np.ndarray[Any, Any]
_ALIGNMENT = 64


class Block(NamedTuple):
    """What the driver and all workers see, with a row for each environment.

    Observations have two rows for each, `row` and `row + count`: a request writes the one that `half` says,
    while the other still has the last observation, which is shown again if the worker dies. A space without
    a fixed shape has None, and its values go through a pipe.

    A row that is to step has the number of the request in `asked`; once it has answered, in `answered`, and
    `has_more` says whether there is a message, too. `idle` has the seconds that a worker had nothing to do.
    """

    observations: Any
    actions: Any
    rewards: Array
    terminated: Array
    truncated: Array
    half: Array
    asked: Array
    answered: Array
    has_more: Array
    idle: Array

    @classmethod
    def size(cls, observation: spaces.Space[Any], action: spaces.Space[Any], count: int) -> int:
        """Return how many bytes it takes."""
        counter = _Allocator(None)
        cls.made_by(counter, observation, action, count)
        return max(counter.used, 1)

    @classmethod
    def over(
        cls, memory: Any, observation: spaces.Space[Any], action: spaces.Space[Any], count: int
    ) -> Block:
        """Return the arrays over some memory; the layout is the same on both sides."""
        return cls.made_by(_Allocator(memory), observation, action, count)

    @classmethod
    def made_by(
        cls,
        make: Callable[..., Array],
        observation: spaces.Space[Any] | None,
        action: spaces.Space[Any],
        count: int,
    ) -> Block:
        """Return the arrays that a function makes from a shape and a dtype; without a space, none."""
        batches: list[Any] = [
            create_empty_array(space, rows, make) if space is not None and has_fixed_shape(space) else None
            for space, rows in ((observation, 2 * count), (action, count))
        ]
        dtypes = [np.float64, np.bool_, np.bool_, np.int64, np.int64, np.int64, np.bool_, np.float64]
        return cls(*batches, *(make((count,), dtype) for dtype in dtypes))

    def observation_rows(self, rows: Sequence[int]) -> Any:
        """Return a copy of the current observations of some rows."""
        index, count = index_of(rows), len(self.half)
        places = np.arange(count)[index] + count * self.half[index]
        return map_arrays(lambda array: array.take(places, axis=0), self.observations)


class _Allocator:
    """Makes arrays one after the other over some memory, or counts the bytes that they would take."""

    def __init__(self, memory: Any) -> None:
        self.memory, self.used = memory, 0

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> Array:
        dtype, start = np.dtype(dtype), self.used
        size = dtype.itemsize * int(np.prod(shape))
        self.used += -(-size // _ALIGNMENT) * _ALIGNMENT
        if self.memory is None:
            return np.empty(0, dtype)
        return np.frombuffer(self.memory, dtype, int(np.prod(shape)), start).reshape(shape)


def index_of(rows: Sequence[int], start: int = 0) -> Any:
    """Return what to index an array with, to get some of its rows: a slice, if they follow each other."""
    if not isinstance(rows, range):
        first = rows[0] if rows else 0
        following = range(first, first + len(rows))
        if rows != [*following]:
            return [row + start for row in rows]
        rows = following
    return slice(rows.start + start, rows.stop + start)


def map_arrays(function: Callable[[Array], Any], value: Any) -> Any:
    """Return a structure of dicts and tuples with a function applied to each array; None stays None."""
    if isinstance(value, dict):
        return {key: map_arrays(function, one) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(map_arrays(function, one) for one in value)
    return None if value is None else function(value)


def copy_into(target: Any, source: Any, rows: Any = ...) -> bool:
    """Copy a structure of arrays into rows of another if it has exactly their form; return whether it does.

    If the target is None, for lack of a fixed shape, nothing does.
    """
    if isinstance(target, dict):
        if not isinstance(source, dict) or source.keys() != target.keys():
            return False
        return all(copy_into(one, source[key], rows) for key, one in target.items())
    if isinstance(target, tuple):
        if not isinstance(source, tuple) or len(source) != len(target):
            return False
        return all(copy_into(one, other, rows) for one, other in zip(target, source))
    if type(source) is not np.ndarray or target is None or source.dtype != target.dtype:
        return False
    if source.shape != (target.shape if rows is ... else (len(rows), *target.shape[1:])):
        return False
    target[rows] = source
    return True


def rows_of(space: spaces.Space[Any], actions: Any, places: Any) -> Any:
    """Return the actions of some environments, in the dtypes that they have."""
    if isinstance(space, spaces.Dict):
        return {key: rows_of(one, actions[key], places) for key, one in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(rows_of(one, part, places) for one, part in zip(space, actions))
    if isinstance(actions, (list, tuple)):
        return [actions[place] for place in places]
    return np.asarray(actions)[places]
