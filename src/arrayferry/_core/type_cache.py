"""Decide once per type, and forget when something is registered; find what is registered for a type."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from arrayferry._core.speedups import speedups
from arrayferry.errors import OptionError, UnsupportedError


class _TypeKey(weakref.ref[type]):
    """A weak reference that is found in a dict by the type that it refers to."""

    __slots__ = ()
    __hash__ = weakref.ref.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other or self() is other


# Py_TPFLAGS_HEAPTYPE: all other types live as long as the program.
_CAN_END = 1 << 9

TypeKey: Any = _TypeKey if speedups is None else speedups.TypeKey


class TypeCache(dict[type, Any]):
    """A table from types to decisions, each made once, when it is first needed, and kept as long as the type.

    A decision must not refer to its type, or both would live for ever.

    There is no lock: a finalizer or a forked process may get here at any time. What two threads decide
    at once is decided twice, with the same result. Even without a GIL, a dict is all that this needs.
    """

    all: ClassVar[weakref.WeakValueDictionary[int, TypeCache]] = weakref.WeakValueDictionary()
    # Changes with every clearing. It is not a number: two threads cannot miscount an object.
    last_clear: ClassVar[object] = object()

    def __init__(self, decide: Callable[[type], Any]) -> None:
        """Ask `decide(cls)` for each type that is not in the table."""
        self._decide = decide
        self.all[id(self)] = self

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, cls: type) -> Any:
        before = TypeCache.last_clear
        key = TypeKey(cls, self._forget) if cls.__flags__ & _CAN_END else cls
        self[key] = decision = self._decide(cls)
        if TypeCache.last_clear is not before:  # another thread has registered something meanwhile
            self.pop(cls, None)
        return decision

    def _forget(self, key: Any) -> None:
        self.pop(key, None)


def clear_type_caches() -> None:
    """Forget all decisions, because something was registered."""
    TypeCache.last_clear = object()  # first, so that a decision made before it is not stored after it
    for reference in TypeCache.all.valuerefs():  # at one moment: other threads may make a table
        if (table := reference()) is not None:
            table.clear()


# What users register for types: a `Container`, or what is called for a leaf.
registrations: dict[type, Any] = {}


def register(cls: type, entry: Any, functions: Mapping[str, Any], *, replace: bool) -> None:
    """Register an entry for a class, or raise if the class or a function is none, or the class is taken."""
    if not isinstance(cls, type):
        raise UnsupportedError(f"{cls!r} is not a class", "pass the class itself")
    for name, function in functions.items():
        if not callable(function):
            raise UnsupportedError(f"{name}={function!r} is not callable", "pass a function")
    if not replace and cls in registrations:
        raise OptionError(f"{cls.__qualname__} is registered already", "pass replace=True to replace that")
    registrations[cls] = entry
    clear_type_caches()


def find_registered(kind: Any, cls: type) -> Any:
    """Return the entry of a kind that is registered for a type or for the nearest of its bases, or None."""
    return next((entry for base in cls.__mro__ if isinstance(entry := registrations.get(base), kind)), None)


def find_class(name: str) -> type | None:
    """Return the class that `"module:Class"` names; None if its module is not imported."""
    module, _, attribute = name.partition(":")
    cls = getattr(sys.modules.get(module), attribute, None)
    return cls if isinstance(cls, type) else None
