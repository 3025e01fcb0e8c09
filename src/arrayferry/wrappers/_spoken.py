"""Which framework does an environment speak? Asked before anything goes in; nothing is reset or stepped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from arrayferry._core.containers import container_of
from arrayferry._core.dtypes import is_known
from arrayferry._core.framework import Framework
from arrayferry._core.registry import can_make_arrays, find_framework, framework_of
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import Action, Slot, unchanged, walk
from arrayferry.errors import FerryError

__all__ = ["spoken_by"]

# The module of the classes that Gymnasium's JAX environments derive from.
_GYMNASIUM_JAX = "gymnasium.envs.functional_jax_env"


def spoken_by(env: Any) -> tuple[Framework, Any] | None:
    """Return the framework and the device of the arrays that an environment takes; None if nothing tells.

    An inner conversion wrapper knows it; otherwise the environment's class tells, or the arrays that it
    and what it wraps hold. NumPy arrays tell nothing, because environments of all frameworks hold some.
    """
    for layer in _layers(env):
        if (boundary := getattr(layer, "_boundary", None)) is not None:
            return boundary.outgoing.framework, boundary.outgoing.device
        if (target := vars(layer).get("_target_xp")) is not None:  # a conversion wrapper of Gymnasium's
            return find_framework(target), vars(layer).get("_target_device")
        if any(cls.__module__ == _GYMNASIUM_JAX for cls in type(layer).__mro__):
            return find_framework("jax"), None
    return _most_frequent([array for layer in _layers(env) for array in _arrays_of(layer)])


def _layers(env: Any) -> Iterator[Any]:
    """Yield an environment and what it wraps, from the outside in."""
    seen: set[int] = set()
    while env is not None and id(env) not in seen:
        seen.add(id(env))
        yield env
        env = vars(env).get("env") if hasattr(env, "__dict__") else None


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


def _arrays_of(layer: Any) -> list[tuple[Framework, Any]]:
    """Return the arrays that an object holds, in attributes or in plain containers there."""
    found: list[tuple[Framework, Any]] = []

    def visit(path: str, leaf: Any, references: int | None, action: Any) -> Any:
        framework = framework_of(type(leaf))
        if framework is not None and can_make_arrays(framework) and is_known(getattr(leaf, "dtype", "")):
            found.append((framework, leaf))

    for value in vars(layer).values():
        try:
            walk([value], [Slot("value")], _actions, visit=visit)
        except FerryError:  # it holds itself, or cannot be read: no matter
            continue
    return found


def _decide_action(cls: type) -> Action:
    is_plain = cls in (dict, list, tuple) or (is_dataclass(cls) and framework_of(cls) is None)
    return (container_of(cls) if is_plain else None) or unchanged


_actions = TypeCache(_decide_action)
