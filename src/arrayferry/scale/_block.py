"""Shared memory that a driver and its workers see as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array

from arrayferry.spaces.casting import subspaces

__all__ = ["Block", "copy_into", "map_arrays"]

Array = np.ndarray[Any, Any]
_ALIGNMENT = 64


class Block(NamedTuple):
    """What the driver and all workers see, with a row for each environment.

    Observations are there twice: a step writes one half while the other still has the last ones, which are
    shown again if a worker dies during the step. A space without a fixed shape has None, and its values go
    through a pipe. `answered` has, for each row, the number of the last request that it was written for.
    """

    observations: tuple[Any, Any]
    actions: Any
    rewards: Array
    terminated: Array
    truncated: Array
    answered: Array

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
        cls, make: Callable[..., Array], observation: spaces.Space[Any], action: spaces.Space[Any], count: int
    ) -> Block:
        """Return the arrays that a function makes from a shape and a dtype."""

        def batch(space: spaces.Space[Any]) -> Any:
            return create_empty_array(space, count, make) if _has_fixed_shape(space) else None

        halves = batch(observation), batch(observation)
        flags = make((count,), np.bool_), make((count,), np.bool_)
        return cls(halves, batch(action), make((count,), np.float64), *flags, make((count,), np.int64))

    def rows(self, rows: slice) -> Block:
        """Return the part that belongs to some environments."""
        return Block(*(map_arrays(lambda array: array[rows], part) for part in self))


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


def _has_fixed_shape(space: spaces.Space[Any]) -> bool:
    """Return whether all members of a space are arrays of the same shapes."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return all(map(_has_fixed_shape, subspaces(space).values()))
    return isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete))


def map_arrays(function: Callable[[Array], Any], value: Any) -> Any:
    """Return a structure of dicts and tuples with a function applied to each array; None stays None."""
    if isinstance(value, dict):
        return {key: map_arrays(function, one) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(map_arrays(function, one) for one in value)
    return None if value is None else function(value)


def copy_into(target: Any, source: Any) -> bool:
    """Copy a structure of arrays into another if it has exactly its form; return whether it does.

    If the target is None, for lack of a fixed shape, nothing does.
    """
    if isinstance(target, dict):
        if not isinstance(source, dict) or source.keys() != target.keys():
            return False
        return all(copy_into(one, source[key]) for key, one in target.items())
    if isinstance(target, tuple):
        if not isinstance(source, tuple) or len(source) != len(target):
            return False
        return all(copy_into(one, other) for one, other in zip(target, source))
    if type(source) is not np.ndarray or target is None:
        return False
    if source.dtype != target.dtype or source.shape != target.shape:
        return False
    target[...] = source
    return True
