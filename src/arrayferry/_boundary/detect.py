"""Detect the framework of an environment before anything goes in; nothing is reset or stepped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from arrayferry._core.containers import OBJECT_ARRAY, container_of, registered_container
from arrayferry._core.dtypes import is_known
from arrayferry._core.framework import Deferred, Framework
from arrayferry._core.objects import reachable
from arrayferry._core.registry import can_make_arrays, decide_framework, source_of
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import KEEP, Container, Slot
from arrayferry.errors import FerryError

__all__ = ["ArrayWatch", "arrays_in", "layers_of", "suggested_framework"]


def suggested_framework(env: Any) -> tuple[Framework, Any] | None:
    """Return what the arrays suggest that an environment, and what it wraps, hold: this is a guess.

    NumPy arrays suggest nothing, because environments of all frameworks hold some; where they outnumber the
    others, the answer is None.
    """
    held = [value for layer in layers_of(env) for value in [*vars(layer).values()]]
    arrays = [found for value in held for found in arrays_in(value)]
    votes = Counter(framework.name for framework, _ in arrays)
    of_numpy = votes.pop("numpy", 0)
    if not votes or max(votes.values()) < of_numpy:
        return None
    [(winner, _)] = votes.most_common(1)
    framework, array = next(found for found in arrays if found[0].name == winner)
    return framework, source_of(array).device_of(array)


def layers_of(env: Any) -> Iterator[Any]:
    """Yield an environment and what it wraps, from the outside in."""
    seen: set[int] = set()
    while hasattr(env, "__dict__") and id(env) not in seen:
        seen.add(id(env))
        yield env
        env = vars(env).get("env", vars(env).get("aec_env"))  # the latter in PettingZoo's aec_to_parallel


def arrays_in(value: Any) -> Iterator[tuple[Framework, Any]]:
    """Yield the first arrays in a structure, with their frameworks; text is left out.

    It looks into every container that a conversion would open.
    """
    for item in reachable(value, _parts, _MANY):
        kind = _kinds[type(item)]
        if isinstance(kind, Framework) and _is_array(kind, item):
            yield kind, item


def _parts(item: Any) -> list[Any]:
    """Return what a container holds besides text and numbers; nothing if it cannot be read."""
    is_objects = isinstance(item, np.ndarray) and item.dtype == object
    kind = OBJECT_ARRAY if is_objects else _kinds[type(item)]
    if type(kind) is Container:
        with suppress(FerryError, RuntimeError):  # the conversion will report what cannot be read
            return [part for part in islice(kind.flatten(item)[1], _MANY) if type(part) not in _SCALARS]
    return []


class ArrayWatch:
    """Watches what an environment returns for arrays while it is converted, which costs little.

    Args:
        on_array: called with the framework of an array, and the array; for one in a walk, when it ends.
    """

    def __init__(self, on_array: Callable[[Framework, Any], None]) -> None:
        self._on_array = on_array
        self._finish: Callable[[list[Any]], None] = lambda found: on_array(*found[0])

    def handlers(self, decide: Callable[[type], Any]) -> TypeCache:
        """Return handlers that watch, and then do what `decide(cls)` does."""

        def decide_watching(cls: type) -> Any:
            handler, framework = decide(cls), decide_framework(cls)
            if framework is None or type(handler) is Container:
                return handler

            def watch(array: Any, owned: bool) -> Any:
                result = handler(array, owned)
                if not _is_array(framework, array):
                    return result
                if type(result) is Deferred or type(result) is Container or result is KEEP:
                    self._on_array(framework, array)
                    return result
                return Deferred(result, self._finish, (framework, array))

            return watch

        return TypeCache(decide_watching)

    def before(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that looks into its argument first."""

        def watch(value: Any) -> Any:
            for found in islice(arrays_in(value), 1):
                self._on_array(*found)
            return function(value)

        return watch

    def slot(self, slot: Slot) -> Slot:
        """Return a slot like this one that watches what is not walked."""
        return slot if slot.scalar is None else slot._replace(scalar=self.before(slot.scalar))


def _is_array(framework: Framework, array: Any) -> bool:
    return can_make_arrays(framework) and is_known(getattr(array, "dtype", ""))


def _kind_of(cls: type) -> Framework | Container | None:
    return registered_container(cls) or decide_framework(cls) or container_of(cls)


_kinds = TypeCache(_kind_of)

# The most objects that are looked at.
_MANY = 1000
_SCALARS = frozenset({str, bytes, bool, int, float, type(None)})
