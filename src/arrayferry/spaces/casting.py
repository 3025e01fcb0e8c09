"""Observations cast to the dtypes that their space declares, and rewards to one dtype, checked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from gymnasium import spaces

from arrayferry._core.containers import OBJECT_ARRAY, container_of
from arrayferry._core.convert import convert, is_registered
from arrayferry._core.dtypes import STANDARD, can_hold, cast_exactly, dtype_name, kind_of
from arrayferry._core.framework import Framework
from arrayferry._core.messages import number_text, warn_caller, with_article
from arrayferry._core.objects import Keys, holds
from arrayferry._core.registry import can_make_arrays, describe, framework_of, source_of
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import KEEP, Container, Handler, OnKeep, Slot, key_text, unchanged, walk
from arrayferry.errors import KeptWarning, NarrowingError, OptionError, SharingError, UnsupportedError
from arrayferry.spaces.members import to_numpy
from arrayferry.spaces.structure import EDGE_LINKS, subspaces

__all__ = ["cast_reward", "cast_to_space", "known_dtype", "rebuilt", "visitor"]


def _warn(name: str, path: Callable[[], str], value: Any) -> None:
    what = f"{path()}: {describe(value)} is not what its space declares"
    warn_caller(f"{what}, cannot be cast to it, and stays as it is", KeptWarning)


def cast_to_space(
    space: spaces.Space[Any],
    value: Any,
    path: str = "obs",
    share: bool = False,
    on_keep: OnKeep | None = _warn,
) -> Any:
    """Cast the leaves of a value to the dtypes that a space declares.

    A float becomes an integer only if it is whole and in range; an integer becomes a float only if it fits
    exactly. Containers come back as the same type, and arrays stay in their framework if it has the dtype.
    What does not have the space's structure, or is no number, stays as it is, with a `KeptWarning`.

    >>> space = spaces.Dict(pixels=spaces.Box(0, 255, (2,), np.uint8), lives=spaces.Discrete(4))
    >>> cast_to_space(space, {"pixels": np.array([0.0, 255.0]), "lives": 3})
    {'pixels': array([  0, 255], dtype=uint8), 'lives': np.int64(3)}

    Args:
        space: the space.
        value: the value.
        path: what it is called in messages.
        share: whether memory is to be shared, so that a cast is refused.
        on_keep: called instead of the warning, with the name of the value, a function that makes the path,
            and what stays as it is; None for no warning.

    Raises:
        NarrowingError: a value does not fit; the error has its path.
    """
    if isinstance(space, spaces.Sequence) and (space.stack or hasattr(value, "dtype")):
        return cast_to_space(space.feature_space, value, path, share, on_keep)
    if isinstance(space, spaces.OneOf) and isinstance(value, (tuple, list)) and len(value) == 2:
        which = np.asarray(_cast_each(np.dtype(np.int64), value[0], f"{path}[0]", on_keep=None))
        if which.dtype == np.int64 and not which.ndim and 0 <= which < len(space.spaces):
            chosen = cast_to_space(space.spaces[int(which)], value[1], f"{path}[1]", share, on_keep)
            return rebuilt(value, lambda index, _: chosen if index else which[()])
    if (inner := _inner_spaces(space, value)) is not None:

        def cast(key: Any, part: Any) -> Any:
            part_space = inner.get(key)
            if part_space is None or part is None:
                return part
            return cast_to_space(part_space, part, f"{path}{key_text(key)}", share, on_keep)

        return rebuilt(value, cast, by_name=isinstance(space, spaces.Dict))
    is_leaf = kind_of(space.dtype) in "biufc"
    if is_leaf and not isinstance(value, Mapping):
        return _cast_each(np.dtype(space.dtype), value, path, on_keep, share)
    parts = spaces.Dict, spaces.Tuple, spaces.Sequence, spaces.Graph, spaces.OneOf
    if on_keep is not None and value is not None and (is_leaf or isinstance(space, parts)):
        on_keep(path, lambda: path, value)
    return value


def _inner_spaces(space: spaces.Space[Any], value: Any) -> dict[Any, Any] | None:
    """Return the spaces of a value's parts by their keys, if it has the structure of the space."""
    container = _containers[type(value)]
    if isinstance(space, spaces.Dict):
        names = (
            value.keys() if isinstance(value, Mapping) else container.flatten(value)[0] if container else ()
        )
        is_empty = isinstance(value, Mapping) and not names
        return subspaces(space) if is_empty or any(name in space.spaces for name in names) else None
    is_row = isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1
    if not is_row and (not isinstance(value, Sequence) or container is None):
        return None
    if isinstance(space, spaces.Tuple) and len(value) == len(space.spaces):
        return subspaces(space)
    if isinstance(space, spaces.Sequence):
        return dict.fromkeys(range(len(value)), space.feature_space)
    if isinstance(space, spaces.Graph) and len(value) == 3:
        return {0: space.node_space, 1: space.edge_space, 2: EDGE_LINKS}
    return None


_containers = TypeCache(container_of)


def rebuilt(value: Any, change: Callable[[Any, Any], Any], by_name: bool = False) -> Any:
    """Return a container like this one, with each of its items changed.

    Args:
        value: a container; anything else comes back as it is.
        change: `(key, item)` to the new item.
        by_name: whether the keys of a named tuple are the names of its fields, not their positions.

    Raises:
        UnsupportedError: a mapping or sequence does not keep its items where they can be changed.
    """
    if type(value) is dict:  # a fast path for the most common container
        return {key: change(key, item) for key, item in value.copy().items()}
    if _container(value) is None:
        return value
    keys, items = _flatten_items(value)
    names = range(len(items)) if isinstance(value, (Sequence, np.ndarray)) and not by_name else keys
    return keys.build([change(name, item) for name, item in zip(names, items)])


def _container(value: Any) -> Container | None:
    is_objects = isinstance(value, np.ndarray) and value.dtype == object
    return OBJECT_ARRAY if is_objects else _containers[type(value)]


def _flatten_items(old: Any) -> tuple[Keys, list[Any]]:
    """Flatten a container into its items alone; an object that can have none, into its attributes."""
    container: Any = _container(old)
    keys, values = container.flatten(old)
    parts, can_have_items = [*values], isinstance(old, (Mapping, Sequence, np.ndarray))
    n_items = getattr(keys, "n_items", len(parts)) if can_have_items else len(parts)
    if can_have_items and not n_items and len(old):  # one of its attributes holds them
        index = _index_of_store(old, parts)
        inner, items = _flatten_items(parts[index])
        before, after = parts[:index], parts[index + 1 :]
        return Keys(
            inner, lambda new: container.unflatten(old, keys, [*before, inner.build(new), *after])
        ), items
    names = [*keys][:n_items] or range(n_items)
    return Keys(names, lambda new: container.unflatten(old, keys, new + parts[n_items:])), parts[:n_items]


def _index_of_store(old: Any, parts: list[Any]) -> int:
    shown = dict(old.items() if isinstance(old, Mapping) else enumerate(old))
    for index, part in enumerate(parts):
        store = dict(enumerate(part)) if isinstance(part, list) else part
        if isinstance(store, dict) and holds(store, shown):
            return index
    kind = type(old).__qualname__
    what = f"{with_article(kind)} does not keep its items where they can be cast"
    raise UnsupportedError(what, f"arrayferry.register_container({kind}, values=..., build=...)")


# Any container, without what it carries besides its items, such as a `default_factory`.
_ITEMS = Container(_flatten_items, lambda old, keys, new: keys.build(new))


def visitor(visit: Callable[[Any, bool], Any], *, of_objects: bool = True) -> TypeCache:
    """Return handlers for a walk that visits the leaves of containers, of all but None.

    Args:
        visit: the handler of a leaf.
        of_objects: whether attributes are leaves, where an object is neither a mapping nor a sequence.
    """

    def decide(cls: type) -> Handler:
        container = container_of(cls)
        if cls is type(None) or (container is None and is_registered(cls)):
            return unchanged
        if container is None or framework_of(cls) is not None:
            return visit
        has_items = of_objects or issubclass(cls, (Mapping, Sequence, deque)) or is_registered(cls)
        return (container if container.counted else _ITEMS) if has_items else unchanged

    return TypeCache(decide)


def _cast_each(
    dtype: np.dtype[Any],
    value: Any,
    path: str,
    on_keep: OnKeep | None,
    share: bool = False,
    why: str = "as its space declares",
) -> Any:
    """Cast each leaf of a value to one dtype."""
    if type(value) is np.ndarray and value.dtype is dtype:
        return value
    return walk([value], (Slot(path, on_keep=on_keep),), _handlers(dtype, share, why))[0]


@cache
def _handlers(dtype: np.dtype[Any], share: bool, why: str) -> TypeCache:
    return visitor(lambda leaf, owned: _cast_leaf(dtype, leaf, share, why))


def _cast_leaf(dtype: np.dtype[Any], value: Any, share: bool, why: str) -> Any:
    framework, old = framework_of(type(value)), getattr(value, "dtype", None)
    if isinstance(value, np.ma.MaskedArray):
        return KEEP
    if dtype_name(old) == dtype.name:
        return value
    if isinstance(value, np.ndarray) and value.dtype == object:
        return OBJECT_ARRAY
    if kind_of(old) not in "biufc" and type(value) not in (bool, int, float, complex):
        return KEEP
    if share and framework is not None:
        raise SharingError(f"{describe(value)} is not {dtype.name}, {why}", "copy=None")
    stays = framework if framework is not None and _has_dtype(framework, value, dtype) else None
    new: Any = None
    if stays is None or not can_hold(dtype, old):
        array = np.asarray(to_numpy(value))
        new, lost = (array, number_text(value)) if array.dtype == object else cast_exactly(array, dtype)
        if lost:
            what = f"{describe(value)} -> {dtype.name}, {why}: {lost} does not fit"
            raise NarrowingError(what, "fix the value, or choose a dtype that holds it")
    if stays is not None:
        return convert(value, stays, dtypes={dtype_name(old): dtype.name})
    return new if isinstance(value, np.ndarray) or new.ndim else new[()]


def _has_dtype(framework: Framework, array: Any, dtype: np.dtype[Any]) -> bool:
    can_cast = framework.name != "numpy" and can_make_arrays(framework)
    return can_cast and dtype.name in framework.target(source_of(array).device_of(array)).dtypes()


def known_dtype(reward_dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype that `reward_dtype` names, from any framework; raise if there is no such dtype."""
    if reward_dtype is None:
        return None
    if dtype_name(reward_dtype) not in STANDARD:
        what = f"reward_dtype={reward_dtype!r} is not valid"
        raise OptionError(what, 'pass the name of a dtype, such as "float32"')
    return np.dtype(dtype_name(reward_dtype))


def cast_reward(dtype: np.dtype[Any], reward: Any, share: bool = False) -> Any:
    """Cast a reward, or each of several; refuse one that the dtype cannot hold."""
    return _cast_each(dtype, reward, "reward", None, share, "as reward_dtype asks")
