"""The functions of wrappers that transform arrays in their own framework, on their own device.

On NumPy arrays they do what Gymnasium's do. They can be pickled, and also take batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import getitem
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.wrappers.utils import rescale_box

from arrayferry._core.dtypes import dtype_name
from arrayferry.spaces.structure import has_fixed_shape, subspaces
from arrayferry.wrappers._compute.array_context import (
    ArrayContext,
    Constant,
    context_of,
    is_float,
    to_context,
)

__all__ = ["Cast", "Clip", "ClipToSpace", "Flatten", "Rescale"]


class Clip:
    """Clips between two bounds, either of which may be None."""

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high
        self._bounds = Constant(low), Constant(high)

    def __call__(self, value: Any) -> Any:
        """Return a value within the bounds."""
        if (context := context_of(value)) is None:
            return np.clip(value, self.low, self.high)
        for bound, limit in zip(self._bounds, (context.xp.maximum, context.xp.minimum)):
            if (there := bound.at(context)) is not None:
                # A bound must not widen a float.
                there = context.cast(there, dtype_name(value.dtype)) if is_float(value) else there
                value = limit(value, there)
        return value


class ClipToSpace:
    """Clips actions to the action space that an environment currently has."""

    def __init__(self, env: Any) -> None:
        self._env, self._clip = env, Clip(None, None)

    def __call__(self, action: Any) -> Any:
        """Return an action within the bounds."""
        space = self._env.action_space
        if space.low is not self._clip.low or space.high is not self._clip.high:
            self._clip = Clip(space.low, space.high)
        return self._clip(action)


class Rescale:
    """Gymnasium's `rescale_box`, forward or backward."""

    def __init__(self, box: spaces.Box, low: Any, high: Any, is_backward: bool = False) -> None:
        self._arguments = box, low, high, is_backward
        _, forward, backward = rescale_box(box, low, high)
        self._on_numpy = backward if is_backward else forward
        # `forward` is a line, given by its values at 0 and 1: in float64, to avoid the box's own rounding.
        intercept = forward(np.zeros(box.shape))
        gradient = forward(np.ones(box.shape)) - intercept
        self._gradient = Constant(gradient.astype(box.dtype))
        self._intercept = Constant(intercept.astype(box.dtype))
        self._is_backward = is_backward

    def __call__(self, value: Any) -> Any:
        """Return a value on the other scale."""
        if (context := context_of(value)) is None:
            return self._on_numpy(value)
        gradient, intercept = self._gradient.at(context), self._intercept.at(context)
        return (value - intercept) / gradient if self._is_backward else gradient * value + intercept

    def __reduce__(self) -> tuple[Any, ...]:
        return Rescale, self._arguments


class Cast:
    """Casts to one of NumPy's dtypes."""

    def __init__(self, dtype: Any) -> None:
        self._dtype: np.dtype[Any] = dtype

    def __call__(self, value: Any) -> Any:
        """Return a value in that dtype."""
        if (context := context_of(value)) is None:
            return self._dtype.type(value)
        return context.cast(value, self._dtype.name)


class Flatten:
    """Flattens members of a space, or batches of them, as `gymnasium.spaces.flatten` does."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._space = space
        flat: Any = spaces.flatten_space(space)
        self._leaves = list(_leaves(space)) if has_fixed_shape(space) else None
        self._dtype = "" if flat.dtype is None else flat.dtype.name

    def __call__(self, value: Any) -> Any:
        """Return a flat array, by way of NumPy."""
        return to_context(context_of(value), spaces.flatten(self._space, to_context(None, value)))

    def batch(self, context: ArrayContext, value: Any, num_envs: int) -> Any:
        """Return a flat row for each of many members; None if array functions cannot flatten the space."""
        if self._leaves is None:  # text and graphs
            return None
        parts = []
        for path, dtype, one_hot in self._leaves:
            part = context.xp.reshape(to_context(context, reduce(getitem, path, value)), (num_envs, -1))
            if one_hot is not None:
                owner, number = (constant.at(context) for constant in one_hot)
                part = (part if owner is None else context.xp.take(part, owner, axis=-1)) == number
            parts.append(context.cast(context.cast(part, dtype), self._dtype))
        return context.xp.concat(parts, axis=-1)  # a copy, even of a single part


_Leaf: TypeAlias = "tuple[tuple[Any, ...], str, tuple[Constant, Constant] | None]"


def _leaves(space: Any, path: tuple[Any, ...] = ()) -> Iterator[_Leaf]:
    """Yield for each leaf its path, its dtype, and what makes it one-hot if it is one or more choices."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        for key, part in subspaces(space).items():
            yield from _leaves(part, (*path, key))
    elif isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        counts = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
        starts = np.broadcast_to(np.ravel(space.start), counts.shape)
        # For each element of the result: the choice that it belongs to, if there are several, and the number
        # for which it is 1.
        owner = np.repeat(np.arange(counts.size), counts) if counts.size > 1 else None
        number = np.concatenate([start + np.arange(count) for start, count in zip(starts, counts)])
        yield path, space.dtype.name, (Constant(owner), Constant(number.astype(space.dtype)))
    else:
        yield path, space.dtype.name, None
