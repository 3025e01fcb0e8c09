"""Why memory was shared or copied: the conditions of `_core.ownership`, one by one, in words."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from arrayferry._core import ownership
from arrayferry._core.convert import Converter
from arrayferry._core.framework import Array, Framework
from arrayferry.errors import FerryError

__all__ = ["memory_of", "obstacle_to_taking", "why_copied"]


def obstacle_to_taking(array: Array) -> str:
    """The first condition of `ownership.takeable` that does not hold; empty when all do.

    >>> obstacle_to_taking(np.zeros(3)), obstacle_to_taking(np.zeros(3)[::-1])
    ('', 'it is a view of other memory')
    """
    flags = array.flags
    for is_so, reason in (
        (type(array) is not np.ndarray, f"a {type(array).__name__} may have more to it than its values"),
        (array.base is not None or not flags.owndata, "it is a view of other memory"),
        (not flags.writeable, "it is read-only"),
        (not array.dtype.isnative, "it is not in native byte order"),
        (not flags.c_contiguous, "it is not in C order"),
        (not flags.aligned, "its elements are not aligned"),
        (weakref.getweakrefcount(array) > 0, "somebody has a weak reference to it"),
        (array.dtype.hasobject, "it has objects in it"),
    ):
        if is_so:
            return reason
    return ""


def why_copied(
    converter: Converter, source: Framework, array: Any, references: int | None, holder: str
) -> str:
    """Why an array of the right dtype was copied nevertheless; asked before it crosses.

    Args:
        converter: what is about to convert it.
        source: whose array it is.
        array: the array.
        references: to it, as the walk counted them; None when its container can be reached.
        holder: who has it, if anybody, such as `"the environment"`.
    """
    target = converter.framework
    if converter.copy is True:
        return "copy=True"
    if not isinstance(array, np.ndarray):
        return _why_copied_from(source, target, array, holder)
    if obstacle := obstacle_to_taking(array):
        return obstacle
    if not ownership.COUNTS_PROVE:
        return "this Python cannot tell whether anybody else holds it"
    if references is None:
        return f"{holder} still hold{'' if holder == 'you' else 's'} what it is in"
    if references > ownership.unshared:
        return f"{holder} still hold{'' if holder == 'you' else 's'} it"
    if converter.device is not None:
        return f"it goes to {converter.device_name}"
    if target._fast.alignment:
        return f"{target.name} adopts only memory that is aligned to {target._fast.alignment} bytes"
    return f"{target.name} makes its own"


def _why_copied_from(source: Framework, target: Framework, array: Any, holder: str) -> str:
    try:
        if source.to_numpy(array, True) is None:
            return "it has no memory of its own"
    except FerryError as error:
        return error.what
    if source.immutable and not target.immutable:
        return f"arrays of {source.name} never change, and yours are writable"
    if source.immutable:
        return f"{holder} may still delete or donate it"
    return f"nobody can tell who else holds an array of {source.name}"


def memory_of(array: Any, owner: Framework | None) -> tuple[int, int] | None:
    """The first and the last address of an array's memory; None when it has none that can be seen."""
    try:
        view = None if owner is None else owner.to_numpy(array, True)
        return None if view is None or not view.size else np.lib.array_utils.byte_bounds(view)
    except Exception:  # a look must not break what it looks at, and each framework refuses its own way
        return None
