"""Why a leaf was copied, shared, cast or left alone: a code for each reason, and its text."""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayferry._core import ownership
from arrayferry._core.convert import Converter
from arrayferry._core.registry import framework_of
from arrayferry._core.route import Route

REASONS: dict[str, str] = {
    # taken over or shared
    "unheld": "nobody else holds it",
    "copy-false": "copy=False",
    "already-member": "it is a member of the action space already",
    # copied
    **{code: ownership.OBSTACLES[code][0] for code in ownership.TAKING},
    "copy-true": "copy=True",
    "uncounted": "this Python cannot tell whether anybody else holds it",
    "container-held": "others may hold the container it is in",
    "held": "{holder} it",
    "device": "it goes to {to.device_name}",
    "small": "it is small, and a copy is faster than taking it over",
    "alignment": "{to.framework.name} takes over only memory that is aligned to {to.target.alignment} bytes",
    "own-memory": "{to.framework.name} allocates its own memory",
    "no-view": "NumPy cannot see its memory",
    # copied to a device, from one, or between two
    "uploaded": "it goes to {to.device_name}, in one transfer with the others",
    "downloaded": "it comes from {place}, with one wait for all that do",
    "stays": "it stays on {place}, and nobody waits",
    "moves": "it goes from {place} to {to.device_name}, and nobody waits",
    "by-host": "{to.framework.name} cannot read it on {place}, so it goes through the host",
    "immutable": "arrays of {source.name} never change, and yours are writable",
    "deletable": "its {source.name} array can still be deleted or donated",
    "uncountable": "there is no way to tell who else holds {source.name} arrays",
    # cast
    "dtypes": "dtypes= asks for it",
    "no-dtype": "{to.framework.name} has no {before} here",
    "space-dtype": "the action space has {after}",
    # converted, which is said as "converted to ..."
    "array": "to an array",
    "scalar": "to a scalar, as the action space expects",
    "number": "to {an_after}",
    # left alone
    "no-counterpart": "{before} has no counterpart in {to.framework.name}",
    "no-array": "{a_type} is not an array",
    # refused
    "refused": "its conversion raises",
}

# The codes for how an array gets to a device, from one, or between two.
WAYS = frozenset({"uploaded", "downloaded", "stays", "moves", "by-host"})


def reason_to_copy(converter: Converter, route: Any, array: Any, references: int | None) -> str:
    """Return the code for why an array of the right dtype is copied; ask before it is converted.

    Args:
        converter: what is about to convert it.
        route: the route that it is about to take.
        array: the array.
        references: how many there are to it, by the walk's count; None if others can reach its container.
    """
    source, target = framework_of(type(array)), converter.target
    if converter.copy is True or source is None:
        return "copy-true" if converter.copy else ""
    if not source.source(type(array)).on_host(array):
        is_own = source is converter.framework
        is_there = is_own and target.within is not None and target.holds(array)
        if is_there or "dlpack" in getattr(route, "steps", ()):
            return "stays"
        return "downloaded" if target.share is not None else "moves" if is_own else "by-host"
    if target.copies:
        return "uploaded"
    if not isinstance(array, np.ndarray):
        if ownership.view_of(array) is None:
            return "no-view"
        is_fixed = "deletable" if converter.framework.immutable else "immutable"
        return is_fixed if source.immutable else "uncountable"
    if code := ownership.obstacle(array, ownership.TAKING):
        return code
    if not ownership.REFCOUNTS_RELIABLE:
        return "uncounted"
    if references is None:
        return "container-held"
    if references > ownership.unshared:
        return "held"
    if array.nbytes < target.small:
        return "small"
    if converter.device is not None:
        return "device"
    return "alignment" if target.alignment else "own-memory"


def route_of(handler: Any, value: Any) -> Any:
    """Return the route that a leaf takes; a function without steps, if one is registered for its type."""
    if not isinstance(handler, Route) or handler.resolve is None:
        return handler
    return handler.resolve(value)
