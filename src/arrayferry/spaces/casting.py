"""Observations cast to the dtypes that their space declares, and rewards to one dtype, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from arrayferry._core.dtypes import STANDARD, cast_exactly, dtype_name
from arrayferry._core.registry import describe, framework_of
from arrayferry.errors import NarrowingError, OptionError
from arrayferry.spaces.members import to_numpy

__all__ = ["cast_reward", "cast_to_space", "known_dtype"]


def cast_to_space(space: spaces.Space[Any], value: Any, path: str = "obs") -> Any:
    """Cast the leaves of a value to the dtypes that a space declares.

    A float becomes an integer only if it is whole and in range, an integer a float only if that holds it.
    What has not the structure of the space stays as it is.

    >>> space = spaces.Dict(pixels=spaces.Box(0, 255, (2,), np.uint8), lives=spaces.Discrete(4))
    >>> cast_to_space(space, {"pixels": np.array([0.0, 255.0]), "lives": 3})
    {'pixels': array([  0, 255], dtype=uint8), 'lives': np.int64(3)}

    Raises:
        NarrowingError: a value does not fit, with its path.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or value.keys() - space.spaces.keys():
            return value
        return {key: cast_to_space(space[key], one, f'{path}["{key}"]') for key, one in value.items()}
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
            return value
        return tuple(_cast_each(space.spaces, value, path))
    if isinstance(space, spaces.Sequence) and space.stack:
        return cast_to_space(space.feature_space, value, path)
    if isinstance(space, spaces.Sequence) and isinstance(value, tuple):
        return tuple(_cast_each([space.feature_space] * len(value), value, path))
    if isinstance(space, spaces.Graph) and isinstance(value, tuple) and len(value) == 3:
        inner = space.node_space, space.edge_space, _LINKS
        return spaces.GraphInstance(*_cast_each(inner, value, path))
    if isinstance(space, spaces.OneOf) and isinstance(value, tuple) and len(value) == 2:
        which = np.int64(_cast_leaf(np.dtype(np.int64), value[0], f"{path}[0]"))
        return which, cast_to_space(space.spaces[which], value[1], f"{path}[1]")
    return value if space.dtype is None else _cast_leaf(np.dtype(space.dtype), value, path)


def _cast_each(inner: Any, values: Any, path: str) -> list[Any]:
    pairs = enumerate(zip(inner, values))
    return [one if one is None else cast_to_space(space, one, f"{path}[{i}]") for i, (space, one) in pairs]


_LINKS = spaces.Discrete(2, dtype=np.int32)  # as Graph.sample makes them


def _cast_leaf(dtype: np.dtype[Any], value: Any, path: str) -> Any:
    is_array = framework_of(type(value)) is not None or isinstance(value, np.generic)
    if not is_array and type(value) not in (int, float, bool):
        return value
    if is_array and dtype_name(value.dtype) == dtype.name:
        return value
    old = np.asarray(to_numpy(value))
    new, lost = cast_exactly(old, dtype)
    if lost:
        what = f"{describe(value)} -> {dtype.name}, as its space declares: {lost} does not fit"
        raise NarrowingError(what, "repair the observation or its space, or leave dtypes out", path)
    return new if isinstance(value, np.ndarray) or old.ndim else new[()]


def known_dtype(reward_dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype that an option names, of any framework; raise if there is no such dtype."""
    if reward_dtype is None:
        return None
    if dtype_name(reward_dtype) not in STANDARD:
        raise OptionError(f"reward_dtype={reward_dtype!r}", 'it is the name of a dtype, such as "float32"')
    return np.dtype(dtype_name(reward_dtype))


def cast_reward(dtype: np.dtype[Any], reward: Any) -> Any:
    """Cast a reward; a finite one that would become infinite is refused."""
    new, lost = cast_exactly(np.asarray(to_numpy(reward)), dtype)
    if lost:
        what = f"{describe(reward)} -> {dtype.name}: {lost} does not fit"
        raise NarrowingError(what, "another reward_dtype", "reward")
    return new if new.ndim else new[()]
