"""Rewards and flags: what counts as a number, and what does not.

A reward is a real number; a flag is a bool, or a number that is 0 or 1. Text, bytes, dates, records, None and
masked values are neither, whatever `float` and `bool` would make of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import isinf
from typing import Any

import numpy as np

from arrayferry._core.containers import OBJECT_ARRAY
from arrayferry._core.dtypes import cast_exactly, kind_of
from arrayferry._core.interruptions import is_from_handler
from arrayferry._core.registry import describe, framework_of
from arrayferry._core.walk import Slot, walk
from arrayferry.errors import NarrowingError, UnsupportedError
from arrayferry.spaces.casting import visitor
from arrayferry.spaces.members import to_numpy

__all__ = ["each_flag", "each_flag_array", "each_number", "flag_of", "number_of"]

# The types of scalars that a `float` always holds.
_EXACT = frozenset({np.float64, np.float32, np.float16, np.int32, np.int16, np.int8, np.uint8})


def number_of(value: Any) -> float:
    """Return a single real number, which may be in an array, as a `float`.

    Raises:
        TypeError: it is not a number; ValueError or RuntimeError if it is an array of several.
        NarrowingError: it is an integer that a `float` would round, or a number that would become infinite.
    """
    if type(value) in _EXACT:
        return float(value)
    item = int(value) if type(value) is np.int64 else _item(value)
    if not _is_number(item):
        raise TypeError("it has no `__float__`")
    try:
        number = float(item)
    except OverflowError:
        number = float("inf")
    if number != item and (isinf(number) or isinstance(item, int)):
        raise NarrowingError(f"{describe(item)} that a float cannot hold", "scale the rewards")
    return number


def flag_of(value: Any) -> bool:
    """Return a single flag, which may be in an array, as a `bool`; errors are those of `number_of`."""
    if type(value) is np.bool_:
        return bool(value)
    item = _item(value)
    if _is_number(item):
        with suppress(OverflowError):
            if (number := float(item)) in (0.0, 1.0):
                return number == 1.0
        raise TypeError("it is neither 0 nor 1")
    is_countable = hasattr(type(item), "__len__")  # and True if it is not empty, which says nothing
    if item is None or isinstance(item, complex) or is_countable or not hasattr(type(item), "__bool__"):
        raise TypeError("it is neither True nor False")
    return bool(item)


def _item(value: Any) -> Any:
    """Return the one object in an array of real numbers or of objects; what is not an array as it is."""
    if not hasattr(value, "item"):
        return value
    if hasattr(value, "dtype"):
        _real_kind(value)
    item = value.item()
    return item if type(item) is type(value) else _item(item)  # a longdouble is its own item


def _real_kind(array: Any) -> str:
    """Return the kind of an array of real numbers or of objects: b, i, u, f or O."""
    kind = kind_of(array.dtype)
    if np.ma.is_masked(array) or kind not in "biufO":
        raise TypeError("it is masked, or has no real dtype")
    return kind


def _is_number(item: Any) -> bool:
    # `float` would also parse text and buffers, which have neither method.
    return hasattr(type(item), "__float__") or hasattr(type(item), "__index__")


# ---- in containers and arrays ----------------------------------------------------------------------------


def _each(kind: type | None) -> Callable[[str, Any], Any]:
    """Return a function that checks each leaf of a value, which has a name, and casts it where it has to.

    The leaves are flags of this kind, or numbers if it is None.
    """
    noun = "a real number" if kind is None else "a bool"

    def visit(leaf: Any, owned: bool) -> Any:
        try:
            return _checked(leaf, kind)
        except TypeError as error:
            if is_from_handler(error):
                raise
            what = f"{describe(leaf)} is not {noun} ({error})"
            raise UnsupportedError(what, f"let the environment return {noun}") from error

    def check_each(name: str, value: Any) -> Any:
        # Inside a container, None stands for no value: an agent may have none.
        return walk([value], (Slot(name),), {type(None): visit} if value is None else handlers)[0]

    handlers = visitor(visit, of_objects=False)
    return check_each


def _checked(leaf: Any, kind: type | None) -> Any:
    if not isinstance(leaf, np.generic) and framework_of(type(leaf)) is None:
        if kind is None:
            return leaf if type(leaf) in (int, float) else number_of(leaf)
        return kind(flag_of(leaf))
    if (letter := _real_kind(leaf)) == "O":
        return OBJECT_ARRAY
    array = leaf.data if isinstance(leaf, np.ma.MaskedArray) else leaf  # its mask hides nothing
    if (letter == "b") is (kind is not None):
        return array
    new, lost = cast_exactly(np.asarray(to_numpy(array)), np.dtype(kind or float))
    if lost:
        raise TypeError(f"{lost} is neither 0 nor 1")
    return new


each_number, each_flag, each_flag_array = map(_each, (None, bool, np.bool_))
