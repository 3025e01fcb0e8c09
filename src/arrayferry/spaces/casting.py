"""Observations cast to the dtypes that their space declares, and rewards to one dtype, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium import spaces

from arrayferry._core.containers import container_of
from arrayferry._core.dtypes import STANDARD, cast_exactly, dtype_name, is_known
from arrayferry._core.registry import describe, framework_of
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import Attribute, key_text
from arrayferry.errors import FerryError, NarrowingError, OptionError, SharingError
from arrayferry.spaces.members import EDGE_LINKS, to_numpy

__all__ = ["cast_reward", "cast_to_space", "known_dtype", "rebuilt", "subspaces"]


def cast_to_space(space: spaces.Space[Any], value: Any, path: str = "obs", share: bool = False) -> Any:
    """Cast the leaves of a value to the dtypes that a space declares.

    A float becomes an integer only if it is whole and in range; an integer becomes a float only if it fits
    exactly. Containers come back as the same type; what does not have the space's structure stays as it is.

    >>> space = spaces.Dict(pixels=spaces.Box(0, 255, (2,), np.uint8), lives=spaces.Discrete(4))
    >>> cast_to_space(space, {"pixels": np.array([0.0, 255.0]), "lives": 3})
    {'pixels': array([  0, 255], dtype=uint8), 'lives': np.int64(3)}

    Args:
        space: the space.
        value: the value.
        path: what it is called in messages.
        share: whether memory is to be shared, so that a cast is refused.

    Raises:
        NarrowingError: a value does not fit; the error has its path.
    """
    if isinstance(space, spaces.Sequence) and space.stack:
        return cast_to_space(space.feature_space, value, path, share)
    if isinstance(space, spaces.OneOf) and isinstance(value, tuple) and len(value) == 2:
        which = np.asarray(_cast_leaf(np.dtype(np.int64), value[0], f"{path}[0]"))
        if which.dtype != np.int64 or which.ndim or not 0 <= which < len(space.spaces):
            return value
        return which[()], cast_to_space(space.spaces[int(which)], value[1], f"{path}[1]", share)
    if (inner := _inner_spaces(space, value)) is not None:
        return rebuilt(
            value,
            lambda key, one: (
                one
                if inner.get(key) is None or one is None
                else cast_to_space(inner[key], one, f"{path}{key_text(key)}", share)
            ),
        )
    return value if space.dtype is None else _cast_leaf(np.dtype(space.dtype), value, path, share)


def _inner_spaces(space: spaces.Space[Any], value: Any) -> dict[Any, Any] | None:
    """Return the spaces of a value's parts by their keys, if it has the structure of the space."""
    if isinstance(space, spaces.Dict):
        fits = isinstance(value, Mapping) and value.keys() <= space.spaces.keys()
        return subspaces(space) if fits else None
    if not isinstance(value, (tuple, list)):
        return None
    if isinstance(space, spaces.Tuple) and len(value) == len(space.spaces):
        return subspaces(space)
    if isinstance(space, spaces.Sequence):
        return dict.fromkeys(range(len(value)), space.feature_space)
    if isinstance(space, spaces.Graph) and len(value) == 3:
        return {0: space.node_space, 1: space.edge_space, 2: EDGE_LINKS}
    return None


def subspaces(space: spaces.Space[Any] | None) -> dict[Any, spaces.Space[Any]]:
    """Return the subspaces of a Dict by key, or of a Tuple by position; none for any other space."""
    if isinstance(space, spaces.Dict):
        return dict(space.spaces)
    return dict(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else {}


_containers = TypeCache(container_of)


def rebuilt(value: Any, change: Callable[[Any, Any], Any]) -> Any:
    """Return a container like this one, with each of its items changed; its attributes stay as they are."""
    container = _containers[type(value)]
    if container is None:
        return value
    keys, values = container.open(value)
    names, new = list(keys), []
    if isinstance(value, MappingProxyType):  # a view of another container
        return container.build(value, keys, [rebuilt(one, change) for one in values])
    for index, one in enumerate(values):
        key = names[index] if isinstance(value, Mapping) else index
        is_item = type(key) is not Attribute and index < len(value)  # the rest are attributes
        new.append(change(key, one) if is_item else one)
    return container.build(value, keys, new)


def _cast_leaf(
    dtype: np.dtype[Any], value: Any, path: str, share: bool = False, why: str = "as its space declares"
) -> Any:
    is_array = framework_of(type(value)) is not None or isinstance(value, np.generic)
    if not is_array and type(value) not in (int, float, bool):
        return value
    if is_array and (not is_known(value.dtype) or dtype_name(value.dtype) == dtype.name):
        return value
    if isinstance(value, np.ma.MaskedArray):
        return value
    if share and is_array and not isinstance(value, np.generic):
        raise SharingError(f"{describe(value)} is not {dtype.name}, {why}", "copy=None", path)
    try:
        old = np.asarray(to_numpy(value))
    except FerryError as error:
        raise error.inside("value").at(path) from None
    new, lost = (old, str(value)) if old.dtype == object else cast_exactly(old, dtype)
    if lost:
        what = f"{describe(value)} -> {dtype.name}, {why}: {lost} does not fit"
        raise NarrowingError(what, "fix the value, or choose a dtype that holds it", path)
    return new if isinstance(value, np.ndarray) or old.ndim else new[()]


def known_dtype(reward_dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype that `reward_dtype` names, from any framework; raise if there is no such dtype."""
    if reward_dtype is None:
        return None
    if dtype_name(reward_dtype) not in STANDARD:
        what = f"reward_dtype={reward_dtype!r} is not valid"
        raise OptionError(what, 'pass the name of a dtype, such as "float32"')
    return np.dtype(dtype_name(reward_dtype))


def cast_reward(dtype: np.dtype[Any], reward: Any, path: str = "reward") -> Any:
    """Cast a reward, or each of several; refuse one that the dtype cannot hold."""
    if container_of(type(reward)) is not None:
        return rebuilt(reward, lambda key, one: cast_reward(dtype, one, f"{path}{key_text(key)}"))
    return _cast_leaf(dtype, reward, path, why="as reward_dtype asks")
