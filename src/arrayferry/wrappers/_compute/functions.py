"""The functions of wrappers that transform arrays in their own framework, on their own device.

On NumPy arrays they do what Gymnasium's do. They can be pickled, and also take batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate
from gymnasium.wrappers.utils import rescale_box

from arrayferry._core.dtypes import dtype_name
from arrayferry.spaces.members import to_numpy
from arrayferry.spaces.structure import has_fixed_shape, subspaces
from arrayferry.wrappers._compute.array_context import (
    NUMPY,
    ArrayContext,
    Constant,
    context_of,
    is_float,
    to_context,
)

__all__ = ["Cast", "Clip", "ClipToSpace", "Flatten", "Rescale", "stack"]


class Clip:
    """Clips between two bounds, either of which may be None."""

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high
        self._bounds = Constant(low), Constant(high)

    def __call__(self, value: Any) -> Any:
        """Return a value within the bounds."""
        if type(value) in NUMPY or (context := context_of(value)) is None:
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
        if type(action) in NUMPY:
            return np.clip(action, space.low, space.high)
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
        if type(value) in NUMPY or (context := context_of(value)) is None:
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
        if type(value) in NUMPY or (context := context_of(value)) is None:
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
        """Return a flat array."""
        return (
            spaces.flatten(self._space, value) if type(value) in NUMPY else self.at(context_of(value), value)
        )

    def at(self, context: ArrayContext | None, value: Any) -> Any:
        """Return a flat array of a value whose context is known."""
        if context is None:
            return spaces.flatten(self._space, value)
        if self._leaves is None:  # array functions cannot flatten text and graphs
            return context.asarray(spaces.flatten(self._space, to_numpy(value)))
        return self._flat(context, value, ())

    def batch(self, context: ArrayContext, value: Any, num_envs: int) -> Any:
        """Return a flat row for each of many members; None if array functions cannot flatten the space."""
        return None if self._leaves is None else self._flat(context, value, (num_envs,))

    def _flat(self, context: ArrayContext, value: Any, shape: tuple[int, ...]) -> Any:
        parts = []
        for path, dtype, one_hot in self._leaves or ():
            part = context.xp.reshape(to_context(context, reduce(getitem, path, value)), (*shape, -1))
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


def stack(space: Any, items: list[Any], out: Any) -> Any:
    """Stack members of a space at the context of the last one; NumPy's in the form of `out`."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = {
            key: stack(part, [item[key] for item in items], out[key])
            for key, part in subspaces(space).items()
        }
        return parts if isinstance(space, spaces.Dict) else tuple(parts.values())
    if not has_fixed_shape(space):
        return deepcopy(concatenate(space, items, out))
    if (context := context_of(items[-1])) is None:
        return concatenate(space, items, np.empty_like(out))
    stacked = context.xp.stack([to_context(context, item) for item in items])
    is_same_kind = is_float(stacked) and is_float(space)
    return context.cast(stacked, space.dtype.name) if is_same_kind else stacked
