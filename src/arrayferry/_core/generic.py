"""Any array library that nobody registered: the array API standard and DLPack are enough to use it.

* as a target -> `module.asarray` of private memory; the result's dtype and shape are checked
* as a source -> DLPack or `__array__`, whichever gives the array's true values
* an object with `__cuda_array_interface__` -> a GPU array: by DLPack, or by a framework that can see it
* one with only `__array_interface__` -> unchanged, as images are; `register_leaf` can make it an array
* its dtypes and default dtypes -> found by trying
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD, dtype_name, numpy_dtype
from arrayferry._core.framework import WIDE, Array, Framework, Source, Target, no_view
from arrayferry._core.interruptions import attempt
from arrayferry.errors import SharingError, UnsupportedError

_PROTOCOLS = ("__array_namespace__", "__dlpack__", "__cuda_array_interface__")


class ArrayLibrary(Framework):
    """A library that is known by its module only; all arrays of such libraries are read in the same way."""

    arrays: tuple[str, ...] = ()

    def __init__(self, module: ModuleType) -> None:
        self.name, self.modules, self._module = module.__name__, (module.__name__,), module

    def source(self, cls: type) -> Source:
        """Return how its arrays are read: in every way that some library supports."""
        return Source(
            read=read, view=view, on_host=lambda array: dlpack_device_type(array) <= 1, export=export
        )

    def target(self, device: Any) -> Target:
        """Return how its arrays are made: by its `asarray`, or else its `from_dlpack`."""
        return Target(
            take=partial(make, self._module, device),
            dtypes=partial(dtypes, self._module, device),
            defaults=partial(default_dtypes, self._module, device),
            share=partial(share, self._module, device),
        )

    def devices(self) -> Sequence[Any] | None:
        """Return the devices that the module lists, as the standard requires."""
        info = getattr(self._module, "__array_namespace_info__", None)
        return info().devices() if info else None


framework_of_module = cache(ArrayLibrary)


def framework_of_type(cls: type) -> Framework | None:
    """Return the framework that objects of this type belong to; None if they are not arrays."""
    # A scalar of NumPy is a number, not an array.
    if issubclass(cls, np.generic) or not any(hasattr(cls, name) for name in _PROTOCOLS):
        return None
    name = str(cls.__module__).partition(".")[0]
    return framework_of_module(sys.modules.get(name) or ModuleType(name))


def dlpack_device_type(array: Any) -> int:
    """Return DLPack's number for the kind of device that an array is on: 1 is the CPU, 2 CUDA, 0 unknown."""
    if not hasattr(array, "__dlpack_device__"):
        return 2 if _interface(array) else 0
    device = attempt(lambda: array.__dlpack_device__())  # a TPU and several devices have no number
    return 0 if device is None else int(device[0])


# ---- reading ----------------------------------------------------------------------------------------------

# The ways in which NumPy may read an array, in the order in which they are tried; the first two are DLPack.
# Frameworks add theirs, and those in which they see `__cuda_array_interface__` as an array that has DLPack.
WAYS: list[Callable[[Any], Any]] = [
    np.from_dlpack,
    lambda array: np.from_dlpack(array, device="cpu"),
    lambda array: array.__array__(),
]
CUDA_VIEWS: list[Callable[[Any], Any]] = []


def read(array: Any) -> Array | None:
    """Return a view or a copy, whichever the array gives; None if its elements are not numbers."""
    has_counterpart = True
    # Without a dtype to compare, only DLPack is exact, because it carries one: a null might become a NaN.
    for way in WAYS if hasattr(array, "dtype") or _interface(array) else WAYS[:2]:
        if (values := attempt(way, array)) is None:
            continue
        if isinstance(values, np.ma.MaskedArray):
            return None
        values = np.asarray(values)
        if values.dtype.name not in STANDARD | ML_DTYPES and _has_shape(array, values):
            has_counterpart = False  # objects or strings; but another way may give numbers
        elif _matches(array, values):
            return values
    if not has_counterpart:
        return None
    what = f"{type(array).__module__}.{type(array).__qualname__} does not expose its values to NumPy"
    raise UnsupportedError(what, "convert it by hand, or call arrayferry.register_framework()")


def view(array: Any) -> Array:
    """Return a view of the array's memory."""
    values = attempt(np.from_dlpack, array, copy=False)  # since NumPy 2.1
    return no_view(array) if values is None or not _matches(array, values) else values


def export(array: Any) -> Any:
    """Return an array on the same memory that has DLPack, if there is one."""
    ways = [] if hasattr(array, "__dlpack__") else CUDA_VIEWS
    return next((seen for way in ways if (seen := attempt(way, array)) is not None), array)


def _matches(array: Any, values: Array) -> bool:
    """Return whether dtype and shape are the same; one that the array does not have counts as the same."""
    dtype = np.dtype(_interface(array).get("typestr", values.dtype))
    return dtype_name(getattr(array, "dtype", dtype)) == values.dtype.name and _has_shape(array, values)


def _has_shape(array: Any, values: Array) -> bool:
    shape = _interface(array).get("shape", values.shape)
    return tuple(getattr(array, "shape", shape)) == values.shape


def _interface(array: Any) -> dict[str, Any]:
    """Return the description of an array on a GPU; on the CPU, some have the attribute, but nothing in it."""
    interface = attempt(lambda: array.__cuda_array_interface__)
    return interface if isinstance(interface, dict) else {}


# ---- making -----------------------------------------------------------------------------------------------


def make(module: ModuleType, device: Any, array: Array, **options: Any) -> Any:
    """Return an array of the same dtype and shape, or raise."""
    if device is not None:
        options["device"] = device
    result = (getattr(module, "asarray", None) or module.from_dlpack)(array, **options)
    if not _matches(result, array):
        made = f"{dtype_name(result.dtype)}{list(result.shape)}"
        what = f"{module.__name__} turned {array.dtype.name}{list(array.shape)} into {made}"
        raise UnsupportedError(what, "convert it by hand, or call arrayferry.register_framework()")
    return result


def share(module: ModuleType, device: Any, array: Array) -> Any:
    """Return an array on the same memory, or raise."""
    result = attempt(make, module, device, array, copy=False)
    values = attempt(view, result)
    if values is None or (array.size and not np.shares_memory(values, array)):
        what = f"{module.__name__} has copied this memory, or cannot share it"
        raise SharingError(what, "pass copy=None")
    return result


@cache
def dtypes(module: ModuleType, device: Any) -> frozenset[str]:
    """Return the dtypes that the module can make arrays of."""

    def try_dtype(name: str) -> Any:
        return make(module, device, np.ones(1, numpy_dtype(name)))

    return frozenset(name for name in STANDARD | ML_DTYPES if attempt(try_dtype, name) is not None)


@cache
def default_dtypes(module: ModuleType, device: Any) -> dict[type, str]:
    """Return the dtypes that `module.asarray` gives to Python's numbers."""
    options = {} if device is None else {"device": device}

    def default_dtype(kind: type) -> str:
        return dtype_name(module.asarray(kind(1), **options).dtype)

    return {kind: attempt(default_dtype, kind) or wide for kind, wide in WIDE.items()}
