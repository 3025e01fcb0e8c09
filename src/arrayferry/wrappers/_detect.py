"""Detect the framework of an environment before anything goes in; nothing is reset or stepped."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import islice
from typing import Any

import numpy as np

from arrayferry._core.convert import Converter
from arrayferry._core.dtypes import is_known
from arrayferry._core.framework import Framework
from arrayferry._core.registry import can_make_arrays, find_framework, framework_of

__all__ = ["arrays_in", "known_framework", "suggested_framework"]

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
    return _most_frequent([array for layer in _layers(env) for array in arrays_in(dict(vars(layer)))])


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
    return framework, framework.devices.of(array)


def arrays_in(value: Any) -> Iterator[tuple[Framework, Any]]:
    """Yield the first arrays in plain containers, with their frameworks; text is left out."""
    todo, seen = deque([value]), set[int]()
    while todo and len(seen) < _MANY:
        one = todo.popleft()
        if id(one) in seen or type(one) in _SCALARS:
            continue
        seen.add(id(one))
        framework = framework_of(type(one))
        if framework is not None:
            if can_make_arrays(framework) and is_known(getattr(one, "dtype", "")):
                yield framework, one
            elif isinstance(one, np.ndarray) and one.dtype == object:
                todo.extend(islice(one.flat, _MANY))
        elif type(one) in (list, tuple):
            todo.extend(islice(one, _MANY))
        elif type(one) is dict:
            todo.extend(islice(one.values(), _MANY))
        elif is_dataclass(one) and hasattr(one, "__dict__"):
            todo.extend(vars(one).values())


# The most objects that are looked at.
_MANY = 1000
_SCALARS = (str, bytes, bool, int, float, type(None))
