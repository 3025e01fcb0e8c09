"""Decide once per type, and forget when something is registered; find what is registered for a type."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

__all__ = ["TypeCache", "find_base", "find_class", "forget_decisions"]

_T = TypeVar("_T")


class TypeCache(dict[type, Any]):
    """A table from types to decisions, each made once, when it is first needed.

    There is no lock: a finalizer or a forked process may get here at any time. What two threads decide
    at once is decided twice, with the same result. Even without a GIL, a dict is all that this needs.
    """

    _all: ClassVar[weakref.WeakSet[TypeCache]] = weakref.WeakSet()
    # Changes with every clearing. It is not a number: two threads cannot miscount an object.
    last_clear: ClassVar[object] = object()

    # Keeps the table from growing without bound in a program that makes a new type in every step.
    _limit = 10_000

    def __init__(self, decide: Callable[[type], Any]) -> None:
        """Ask `decide(cls)` for each type that is not in the table."""
        super().__init__()
        self._decide = decide
        self._all.add(self)

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, cls: type) -> Any:
        if len(self) >= self._limit:
            self.clear()
        before = TypeCache.last_clear
        self[cls] = decision = self._decide(cls)
        if TypeCache.last_clear is not before:  # another thread has registered something meanwhile
            self.pop(cls, None)
        return decision

    @classmethod
    def tables(cls) -> list[TypeCache]:
        """Return all tables that there are."""
        while True:
            try:
                return list(cls._all)
            except RuntimeError:  # another thread has made a table meanwhile
                continue


def forget_decisions() -> None:
    """Forget all decisions, because something was registered."""
    TypeCache.last_clear = object()  # first, so that a decision made before it is not stored after it
    for table in TypeCache.tables():
        table.clear()


def find_base(table: Mapping[type, _T], cls: type) -> _T | None:
    """Return what a table has for a type, or for the nearest of its bases."""
    return next((table[base] for base in cls.__mro__ if base in table), None)


def find_class(name: str) -> type | None:
    """Return the class that `"module:Class"` names; None if its module is not imported."""
    module, _, attribute = name.partition(":")
    found = getattr(sys.modules.get(module), attribute, None)
    return found if isinstance(found, type) else None
