"""Where a value is: the framework and the device of its arrays, for wrappers that stay there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from arrayferry._core.convert import Converter
from arrayferry._core.dtypes import dtype_name, next_available
from arrayferry._core.framework import Framework
from arrayferry._core.registry import framework_of
from arrayferry.errors import UnsupportedError
from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers.base import module_namespace

__all__ = ["NUMPY", "Constant", "ArrayContext", "is_float", "to_context", "namespace", "context_of"]

# Types of arrays and numbers that Gymnasium's own code handles, recognised without a lookup.
NUMPY = frozenset({np.ndarray, np.float64, np.float32, np.int64, float, int, bool})


class ArrayContext:
    """A framework other than NumPy, and one of its devices.

    Attributes:
        xp: the framework's array API namespace.
        framework: the framework.
        device: the device.
        asarray: converts any value to this context, in memory of its own.
    """

    def __init__(self, framework: Framework, device: Any) -> None:
        self.framework, self.xp, self.device = framework, module_namespace(framework), device
        if not all(hasattr(self.xp, name) for name in ("astype", "concat", "logical_or")):
            what = f"{framework.name} has no array API namespace, which this wrapper needs"
            hint = "put the wrapper inside the conversion: arrayferry.wrap(Wrapper(env), ...)"
            raise UnsupportedError(what, hint)
        self.asarray = Converter(framework, device)

    def cast(self, array: Any, dtype: str) -> Any:
        """Return an array in a dtype, or in the next one available here now; itself if that is its own."""
        found = getattr(self.xp, next_available(dtype, self.asarray.target.dtypes()))
        return array if array.dtype == found else self.xp.astype(array, found)

    def wide(self, array: Any) -> Any:
        """Return an array as statistics need it: as wide as possible, and without its gradient."""
        return self.cast(array.detach() if hasattr(array, "detach") else array, "float64")


def is_float(array: Any) -> bool:
    """Return whether an array holds real floats."""
    return "float" in dtype_name(array.dtype)


@cache
def _context(framework: Framework, device: Any) -> ArrayContext:
    return ArrayContext(framework, device)


def context_of(value: Any) -> ArrayContext | None:
    """Return where the arrays in a value are; None if they are NumPy's, or if there are none."""
    if type(value) in NUMPY:
        return None
    if isinstance(value, (dict, tuple, list, Mapping)):
        for one in value.values() if isinstance(value, (dict, Mapping)) else value:
            if (context := context_of(one)) is not None:
                return context
        return None
    framework = framework_of(type(value))
    if framework is None or framework.name == "numpy":
        return None
    device = getattr(value, "device", None)
    # The "device" of an array spread over many is its sharding: JAX moves the other operands to it.
    return _context(framework, None if hasattr(device, "device_set") else device)


def namespace(context: ArrayContext | None) -> ModuleType:
    """Return the functions for arrays of a context: NumPy's for None."""
    return np if context is None else context.xp


def to_context(context: ArrayContext | None, value: Any) -> Any:
    """Return a value at a context; itself if it is already there."""
    if context_of(value) is context:
        return value
    return to_numpy(value) if context is None else context.asarray(value)


class Constant:
    """A NumPy array or number, kept where it was used last."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._context: ArrayContext | None = None
        self._there: Any = None

    def at(self, context: ArrayContext) -> Any:
        """Return the value at a context."""
        if self._context is not context:
            self._context, self._there = context, to_context(context, self._value)
        return self._there

    def __reduce__(self) -> tuple[Any, ...]:
        return Constant, (self._value,)
