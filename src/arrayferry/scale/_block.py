"""Shared memory that a driver and its workers see as arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium.vector.utils import create_empty_array

from arrayferry.spaces.structure import has_fixed_shape

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["Block", "copy_into", "index_of", "map_arrays", "order_memory"]

Array = np.ndarray[Any, Any]
_ALIGNMENT = 64


class Block(NamedTuple):
    """What the driver and all workers see, with a row for each environment.

    Observations have two rows for each, `row` and `row + count`: a request writes the one that `half` says,
    while the other still has the last observation, which is shown again if the worker dies. A space without
    a fixed shape has None, and its values go through a pipe.

    A row that is asked has the number of the request in `asked`, and once it has answered, in `answered`;
    the driver then takes it, and writes -1 into `asked`. `has_message` says whether a message goes with the
    request, or with the answer. `wanted` has how many answers the driver waits for, in its first row, and
    `idle` the seconds that a worker had nothing to do, in the first of its rows.
    """

    observations: Any
    actions: Any
    rewards: Array
    terminated: Array
    truncated: Array
    half: Array
    asked: Array
    answered: Array
    has_message: Array
    wanted: Array
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
        dtypes = [
            np.float64,
            np.bool_,
            np.bool_,
            np.int64,
            np.int64,
            np.int64,
            np.bool_,
            np.int64,
            np.float64,
        ]
        return cls(*batches, *(make((count,), dtype) for dtype in dtypes))

    def count_answered(self) -> int:
        """Return how many rows have answered that the driver has not taken yet."""
        return int(np.count_nonzero(self.answered == self.asked))

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


def order_memory() -> None:
    """Let other processes see what was written before this no later than what is written after it.

    Not every processor does so by itself; releasing a lock and acquiring it orders all reads and writes.
    """
    lock = threading.Lock()
    lock.acquire()
    lock.release()
    lock.acquire()
