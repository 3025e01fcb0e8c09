"""Detect the framework of an environment before anything goes in; nothing is reset or stepped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from arrayferry._core.containers import OBJECT_ARRAY, container_of, registered_container
from arrayferry._core.convert import Converter
from arrayferry._core.dtypes import is_known
from arrayferry._core.framework import Framework
from arrayferry._core.registry import can_make_arrays, decide_framework, find_framework, source_of
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import Container
from arrayferry.errors import FerryError

__all__ = ["arrays_in", "known_framework", "looking_first", "suggested_framework"]

# The modules of the classes that Gymnasium's JAX environments and ours derive from.
_JAX = ("gymnasium.envs.functional_jax_env", "arrayferry.envs._environments")


def known_framework(env: Any) -> tuple[Framework, Any] | None:
    """Return the framework and the device of the arrays that an environment takes; None if unknown.

    An inner conversion wrapper knows it, or the environment's class reveals it.
    """
    for layer in _layers(env):
        outgoing = getattr(getattr(layer, "_boundary", None), "outgoing", None)
        if isinstance(outgoing, Converter):
            return outgoing.framework, outgoing.device
        if (target := vars(layer).get("_target_xp")) is not None:  # a conversion wrapper of Gymnasium's
            return find_framework(target), vars(layer).get("_target_device")
        if any(cls.__module__ in _JAX for cls in type(layer).__mro__):
            return find_framework("jax"), None
    return None


def suggested_framework(env: Any) -> tuple[Framework, Any] | None:
    """Return what the arrays suggest that an environment, and what it wraps, hold: this is a guess.

    NumPy arrays suggest nothing, because environments of all frameworks hold some; where they outnumber the
    others, the answer is None.
    """
    held = [value for layer in _layers(env) for value in [*vars(layer).values()]]
    return _most_frequent([array for value in held for array in arrays_in(value)])


def _layers(env: Any) -> Iterator[Any]:
    """Yield an environment and what it wraps, from the outside in."""
    seen: set[int] = set()
    while hasattr(env, "__dict__") and id(env) not in seen:
        seen.add(id(env))
        yield env
        env = vars(env).get("env", vars(env).get("aec_env"))  # the latter in PettingZoo's aec_to_parallel


def _most_frequent(arrays: list[tuple[Framework, Any]]) -> tuple[Framework, Any] | None:
    counts = Counter(framework.name for framework, _ in arrays)
    others = Counter({name: count for name, count in counts.items() if name != "numpy"})
    if not others:
        return None
    [(winner, votes)] = others.most_common(1)
    if votes < counts["numpy"]:
        return None
    framework, array = next(found for found in arrays if found[0].name == winner)
    return framework, source_of(array).device_of(array)


def arrays_in(value: Any) -> Iterator[tuple[Framework, Any]]:
    """Yield the first arrays in a structure, with their frameworks; text is left out.

    It looks into every container that a conversion would open.
    """
    stack, seen = [value], dict[int, Any]()  # what is seen is kept, so that no id is used twice
    while stack and len(seen) < _MANY:
        item = stack.pop()
        if id(item) in seen or type(item) in _SCALARS:
            continue
        seen[id(item)] = item
        kind: Any = _kinds[type(item)]
        if isinstance(item, np.ndarray) and item.dtype == object:
            kind = OBJECT_ARRAY
        if type(kind) is Container:
            with suppress(FerryError, RuntimeError):  # the conversion will report what cannot be read
                stack += [*islice(kind.flatten(item)[1], _MANY)][::-1]
        elif kind is not None and can_make_arrays(kind) and is_known(getattr(item, "dtype", "")):
            yield kind, item


def looking_first(
    convert: Callable[[list[Any]], Any], learn: Callable[[list[Any]], None]
) -> Callable[[list[Any]], Any]:
    """Return a function that calls `learn` before it converts a result, unless a glance shows no arrays.

    Some environments never return an array: so they pay for the glance, and not for a search.
    """

    def look_and_convert(box: list[Any]) -> Any:
        try:
            obs, reward, terminated, truncated, info = box[0]
            has_numbers = (
                type(obs) in _SCALARS
                and type(reward) in _SCALARS
                and type(terminated) in _SCALARS
                and type(truncated) in _SCALARS
                and type(info) is dict
                and (not info or _SCALARS.issuperset(map(type, info.values())))
            )
        except (TypeError, ValueError):  # not as many values, as in a reset
            has_numbers = False
        obs = reward = terminated = truncated = info = None  # so that the box alone holds them
        if not has_numbers:
            learn(box)
        return convert(box)

    return look_and_convert


def _kind_of(cls: type) -> Framework | Container | None:
    return registered_container(cls) or decide_framework(cls) or container_of(cls)


_kinds = TypeCache(_kind_of)

# The most objects that are looked at.
_MANY = 1000
_SCALARS = frozenset({str, bytes, bool, int, float, type(None)})
