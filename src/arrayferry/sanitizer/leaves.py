"""The leaves of what crosses: where each is, what it looks like, and whether somebody holds its memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from sys import getrefcount
from typing import Any
from weakref import getweakrefcount

import numpy as np

from arrayferry._core import ownership
from arrayferry._core.containers import OBJECT_ARRAY, container_of
from arrayferry._core.framework import Array, Framework
from arrayferry._core.registry import framework_of
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import Action, Slot, unchanged, walk
from arrayferry.errors import FerryError, SharingError

__all__ = ["PASSED", "Form", "Leaf", "Reader", "first_where"]

# The framework ("python" for what is no array), the dtype or type, and the shape.
Form = tuple[str, Any, tuple[int, ...]]

# How arrays of these kinds look in memory is all there is to them.
_PLAIN = "biufcmMSUV"


@dataclass(slots=True, eq=False)
class Leaf:
    """A leaf of a value that crosses.

    Attributes:
        name: the value that it is part of: `"obs"`, `"reward"`, `"info"`, `"action"`, ...
        path: where it is, from that name on.
        value: itself.
        owner: whose array it is; None if it is none.
        held: whether somebody beyond the value itself holds its memory; None if that cannot be known.
        view: the array as NumPy sees it, or a number; None where there is nothing to see.
        in_place: whether the view sees the array's own memory.
    """

    name: str
    path: str
    value: Any
    owner: Framework | None
    held: bool | None
    view: Any
    in_place: bool

    @property
    def form(self) -> Form:
        """What should stay the same from step to step."""
        if self.owner is None:
            kind = "numpy" if isinstance(self.value, np.generic) else "python"
            return kind, type(self.value).__name__, ()
        return self.owner.name, self.value.dtype, tuple(self.value.shape)


def first_where(is_so: Any) -> tuple[tuple[int, ...], str]:
    """The index of the first True, and how to write it."""
    index = tuple(map(int, np.argwhere(is_so)[0]))
    return index, str(list(index)) if index else "it"


class Reader:
    """Finds the leaves. It holds on to nothing, and a copy of it is a new one."""

    def __init__(self) -> None:
        self._actions = TypeCache(_action_of)

    def __reduce__(self) -> tuple[Any, ...]:
        return Reader, ()

    def read(self, box: list[Any], names: Sequence[str], passed: int = 0) -> list[Leaf]:
        """The leaves of the values in a list; alone, if who holds them shall be known.

        Args:
            box: the values.
            names: what they are called.
            passed: how many references to each value are on the stack of the interpreter.
        """
        found: list[Leaf] = []
        counts: dict[int, int] = {}

        def visit(path: str, value: Any, references: int | None, action: Any) -> Any:
            if isinstance(value, np.ndarray) and value.dtype.kind == "O":
                return OBJECT_ARRAY
            owner = None if isinstance(value, np.generic) else framework_of(type(value))
            view, in_place = _view(value, owner)
            name = path[: min(path.find(mark) % (len(path) + 1) for mark in ".[")]
            found.append(Leaf(name, path, value, owner, None, view, in_place))
            if in_place and references is not None:  # counted when it is met first: the leaf counts, too
                counts.setdefault(id(value), references)
            return value

        with suppress(FerryError):  # the conversion itself will say it
            walk(box, [*map(Slot, names)], self._actions, visit=visit)
        if counts and ownership.COUNTS_PROVE:
            _tell_who_is_held([leaf for leaf in found if leaf.in_place], counts, passed)
        return found


def _action_of(cls: type) -> Action:
    is_array = issubclass(cls, (np.ndarray, np.generic)) or framework_of(cls) is not None
    return (None if is_array else container_of(cls)) or unchanged


def _view(value: Any, owner: Framework | None) -> tuple[Any, bool]:
    if owner is None:
        return (value if isinstance(value, (int, float, complex, np.generic)) else None), False
    if isinstance(value, np.ma.MaskedArray):
        return None, False
    try:
        view, in_place = _numpy_view(value, owner)
    except Exception:  # deleted, without values, ...: the conversion itself will say it
        return None, False
    if view is None or view.dtype.hasobject or view.dtype.kind not in _PLAIN:
        return None, False
    return view, in_place


def _numpy_view(value: Any, owner: Framework) -> tuple[Array | None, bool]:
    try:
        return owner.to_numpy(value, True), not owner.immutable
    except SharingError:
        return owner.to_numpy(value, False), False


def _tell_who_is_held(leaves: list[Leaf], counts: dict[int, int], passed: int) -> None:
    """Set `held`: whether there are more references than the values themselves account for."""
    times = Counter(id(leaf.value) for leaf in leaves)
    arrays = {id(leaf.value): leaf.value for leaf in leaves if type(leaf.value) is np.ndarray}
    views = Counter(id(array.base) for array in arrays.values() if array.base is not None)
    others = {key: count - (times[key] - 1) - views[key] for key, count in counts.items()}
    for leaf in leaves:
        key = id(leaf.value)
        if key in others:
            on_the_way = passed if leaf.path == leaf.name else 0
            leaf.held = others[key] - on_the_way > ownership.unshared or _is_seen(leaf.value, others, views)


def _is_seen(array: Any, others: dict[int, int], views: Counter[int]) -> bool | None:
    """The same for the memory of an array that nobody else holds; None if it cannot be known."""
    if type(array) is not np.ndarray:
        return None  # others have ways to share memory that no count shows
    if getweakrefcount(array):
        return True
    if array.base is None:
        return False if array.flags.owndata else None
    base = [array.base]
    if type(base[0]) is not np.ndarray or base[0].base is not None or not base[0].flags.owndata:
        return None
    if getweakrefcount(base[0]):
        return True
    key = id(base[0])
    if key in others:  # it is a leaf itself
        return others[key] > ownership.unshared
    return _references(base) - (views[key] - 1) > _only_a_view


def _references(box: list[Any]) -> int:
    return getrefcount(box[0])


def _of_base(view: Array) -> int:
    base = [view.base]
    return _references(base)


# The references to an array which only one view of it holds.
_only_a_view = _of_base(np.zeros(2)[:])


def _passed(value: Any) -> int:
    box = [value]
    del value
    return _references(box)


# How many references to an argument its caller keeps while a function runs: none since Python 3.11.
PASSED = _passed(object()) - _references([object()])
