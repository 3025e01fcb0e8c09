"""The leaves of an action or a result: paths, NumPy views, and whether anybody else holds their memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from arrayferry._core import ownership
from arrayferry._core.containers import OBJECT_ARRAY, container_of
from arrayferry._core.dtypes import dtype_name
from arrayferry._core.framework import Framework
from arrayferry._core.interruptions import ignore_errors
from arrayferry._core.registry import decide_framework, framework_of, source_of
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import Handler, Slot, unchanged, walk
from arrayferry.errors import FerryError

# The framework ("python" for what is not an array), the dtype or type, and the shape.
Form: TypeAlias = "tuple[str, str, tuple[int, ...]]"


@dataclass(slots=True, eq=False)
class Leaf:
    """A leaf of an action or of what the environment returned.

    Attributes:
        path: where it is, such as `obs["camera"]`.
        value: the leaf itself.
        owner: the framework whose array it is; None if it is not an array.
        view: the array as NumPy sees it, or a number; None if there is nothing to see.
        in_place: whether the view sees the array's own memory.
        held: whether anybody besides the value itself holds its memory; None if that cannot be known.
    """

    path: str
    value: Any
    owner: Framework | None
    view: Any
    in_place: bool
    held: bool | None = None

    @property
    def name(self) -> str:
        """The value that it is part of: `obs`, `reward`, `info`, `action`, ..."""
        return re.split(r"[.\[]", self.path, maxsplit=1)[0]

    @property
    def form(self) -> Form:
        """What should stay the same from step to step."""
        if self.owner is None:
            kind = "numpy" if isinstance(self.value, np.generic) else "python"
            return kind, type(self.value).__name__, ()
        return self.owner.name, dtype_name(self.value.dtype), tuple(self.value.shape)


def first_where(is_so: Any) -> tuple[tuple[int, ...], str]:
    """Return the index of the first True, and how to write it."""
    index = tuple(map(int, np.argwhere(is_so)[0]))
    return index, str(list(index)) if index else "it"


def read(box: list[Any], names: Sequence[str], passed: int = 0) -> list[Leaf]:
    """Return the leaves of values.

    Args:
        box: a list that holds the values; nothing else here may, if other holders are to be found.
        names: what they are called.
        passed: how many references to them are on the interpreter's stack.
    """
    leaves: list[Leaf] = []
    alone: list[Leaf] = []  # in containers that only the box holds

    def visit(path: str, value: Any, references: int | None, handler: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind == "O":
            return OBJECT_ARRAY
        owner = None if isinstance(value, np.generic) else framework_of(type(value))
        leaves.append(leaf := Leaf(path, value, owner, *_view(value, owner)))
        if references is not None and leaf.in_place:
            alone.append(leaf)
        return value

    with suppress(FerryError):  # the conversion itself will report it
        walk(box, [*map(Slot, names)], _handlers, visit=visit)
    if ownership.REFCOUNTS_RELIABLE:
        known = _known_references(leaves, alone)
        known.update({id(value): passed for value in box})
        for leaf in alone:
            leaf.held = _is_held(leaf, known)
    return leaves


def _handler_of(cls: type) -> Handler:
    is_array = issubclass(cls, (np.ndarray, np.generic)) or decide_framework(cls) is not None
    return (None if is_array else container_of(cls)) or unchanged


_handlers = TypeCache(_handler_of)


def _view(value: Any, owner: Framework | None) -> tuple[Any, bool]:
    """Return an array as NumPy sees it, or a number, or None; and whether that is the array's own memory."""
    if owner is None:
        return (value if isinstance(value, (int, float, complex, np.generic)) else None), False
    view = ownership.view_of(value)
    in_place = view is not None and not owner.immutable
    if view is None:
        with ignore_errors():  # deleted, without values, ...: the conversion itself will report it
            view = source_of(value).read(value)
    has_more = view is None or view.dtype.hasobject or isinstance(value, np.ma.MaskedArray)
    return (None, False) if has_more else (view, in_place)


# ---- who holds it? --------------------------------------------------------------------------------------

# The proof in `ownership` says whether memory may be taken over. That of an array that occurs twice, or of a
# view of an array that nobody else sees, may not; but it is not held either, and its owner may write to it.


def _known_references(leaves: list[Leaf], alone: list[Leaf]) -> Counter[int]:
    """Count, by id, the references that the values and these leaves have to each array and each base."""
    known = Counter(id(leaf.value) for leaf in (*leaves, *alone))  # the leaf's own, and its container's
    for leaf in leaves:
        if isinstance(leaf.view, np.ndarray):
            known[id(leaf.view if leaf.view is leaf.value else leaf.view.base)] += 1
    arrays = {id(leaf.value): leaf.value for leaf in alone}  # each once: it has one reference to its base
    known.update(id(getattr(array, "base", None)) for array in arrays.values())
    return known


def _is_held(leaf: Leaf, known: Counter[int]) -> bool | None:
    if _has_others([leaf.value], known):
        return True
    if type(leaf.value) is not np.ndarray:
        return None  # other arrays can share memory in ways that no count shows
    box = [leaf.value if leaf.value.base is None else leaf.value.base]
    if type(box[0]) is not np.ndarray or box[0].base is not None or not box[0].flags.owndata:
        return None
    return _has_others(box, known)


def _has_others(box: list[Any], known: Counter[int]) -> bool:
    return ownership.count_holders(box) - known[id(box[0])] > _IN_BOX


def _passed(value: Any) -> int:
    box = [value]
    del value
    return ownership.count_holders(box)


# The references to what only a box holds; and those that its caller keeps to the argument of a function while
# it runs: none since Python 3.11.
_IN_BOX = ownership.count_holders([object()])
PASSED = _passed(object()) - _IN_BOX
