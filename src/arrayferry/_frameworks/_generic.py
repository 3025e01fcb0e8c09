"""Any array library that nobody registered: the array API standard and DLPack are enough to use it.

* as a target -> `module.asarray` of private memory; the result's dtype and shape are checked
* as a source -> DLPack, `__array__` or a method of its own, whichever gives the array's true values
* an object with `__cuda_array_interface__` -> a GPU array: by DLPack, or by a library that can read it there
* one with only `__array_interface__` -> unchanged, as images are; `register_leaf` can make it an array
* its dtypes and default dtypes -> found by trying
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD, cast_for, dtype_name
from arrayferry._core.framework import WIDE, Array, Devices, Framework
from arrayferry._core.interruptions import is_from_handler
from arrayferry.errors import DeviceError, SharingError, UnsupportedError

__all__ = ["accepts", "default_dtypes", "framework_of_module", "framework_of_type"]

# The ways in which NumPy may see or copy an array, in the order in which they are tried.
_VIEWS: tuple[Callable[[Any], Any], ...] = (
    lambda array: np.from_dlpack(array, copy=False),
)  # since NumPy 2.1
_DLPACK: tuple[Callable[[Any], Any], ...] = (
    np.from_dlpack,
    lambda array: np.from_dlpack(array, device="cpu"),
)
_COPIES: tuple[Callable[[Any], Any], ...] = (
    *_DLPACK,
    lambda array: array.__array__(),
    lambda array: array.numpy(),
    lambda array: array.to_numpy(),
    lambda array: array.unwrap_numpy(),
    lambda array: array.copy_to_host(),
    lambda array: sys.modules["cupy"].asarray(array).get(),
    lambda array: sys.modules["torch"].as_tensor(array, device="cuda").cpu().numpy(),
)


def to_numpy(array: Any, share: bool) -> Array | None:
    """Return a view or a copy, whichever the array gives; None if its elements are not numbers."""
    has_counterpart = True
    # Without a dtype to compare, only DLPack is exact, because it carries one: a null might become a NaN.
    exact = _COPIES if hasattr(array, "dtype") or _is_on_gpu(array) else _DLPACK
    for read in _VIEWS if share else exact:
        try:
            found = read(array)
        except Exception as error:  # an unknown library may raise anything
            if is_from_handler(error):
                raise
            continue
        if isinstance(found, np.ma.MaskedArray):
            return None
        found = np.asarray(found)
        if found.dtype.name not in STANDARD | ML_DTYPES and _shape(array, found) == found.shape:
            has_counterpart = False  # objects or strings; but another way may give numbers
        elif _matches(array, found):
            return found
    if not has_counterpart:
        return None
    kind = f"{type(array).__module__}.{type(array).__qualname__}"
    if share:
        raise SharingError(f"{kind} does not share its memory", "pass copy=None")
    what = f"{kind} does not expose its values to NumPy"
    raise UnsupportedError(what, "convert it by hand, or call arrayferry.register_framework()")


def _is_on_gpu(array: Any) -> bool:
    return bool(_interface(array))  # on the CPU, some libraries' arrays have the attribute, but nothing in it


def _matches(array: Any, other: Array) -> bool:
    """Return whether dtype and shape are the same; one that the array does not have counts as the same."""
    dtype = np.dtype(_interface(array)["typestr"]) if _interface(array) else other.dtype
    name: str = other.dtype.name
    return _shape(array, other) == other.shape and dtype_name(getattr(array, "dtype", dtype)) == name


def _shape(array: Any, other: Array) -> tuple[Any, ...]:
    return tuple(getattr(array, "shape", _interface(array).get("shape", other.shape)))


def _interface(array: Any) -> dict[str, Any]:
    found = getattr(array, "__cuda_array_interface__", None)
    return found if isinstance(found, dict) else {}


def from_numpy(module: ModuleType, array: Array, device: Any, share: bool) -> Any:
    """Return an array of the same dtype and shape, or raise."""
    create = getattr(module, "asarray", None) or module.from_dlpack
    options = {} if device is None else {"device": device}
    if share:
        return _share(create, array, options)
    found = create(array, **options)
    if not _matches(found, array):
        made = f"{dtype_name(found.dtype)}{list(found.shape)}"
        what = f"{module.__name__} turned {array.dtype.name}{list(array.shape)} into {made}"
        raise UnsupportedError(what, "convert it by hand, or call arrayferry.register_framework()")
    return found


def _share(create: Callable[..., Any], array: Array, options: dict[str, Any]) -> Any:
    try:
        found = create(array, copy=False, **options)
        shares = np.shares_memory(to_numpy(found, True), array) or not array.size
    except Exception as error:  # an unknown library may raise anything
        if is_from_handler(error):
            raise
        raise SharingError(f"this memory cannot be shared: {error}", "pass copy=None") from error
    if not shares:
        raise SharingError("this memory was copied, although copy=False", "pass copy=None")
    return found


def find_device(module: ModuleType, spec: Any) -> Any:
    """Return the device that the module lists under this name, or the device itself."""
    if spec is None:
        return None
    for device in _devices(module):
        if spec is device or str(spec) == str(device):
            return device
    here = ", ".join(available_devices(module)) or "unknown, leave it out"
    raise DeviceError(f"{module.__name__} lists no device {str(spec)!r}", f"the devices here are: {here}")


def available_devices(module: ModuleType) -> tuple[str, ...]:
    """Return the names of the devices that the module lists, as the standard requires."""
    return tuple(map(str, _devices(module)))


def _devices(module: ModuleType) -> tuple[Any, ...]:
    info = getattr(module, "__array_namespace_info__", None)
    return tuple(info().devices()) if info else ()


def accepts(make: Callable[[str], Any]) -> Callable[[str], bool]:
    """Return a function that tells whether `make` accepts a dtype."""

    def is_accepted(name: str) -> bool:
        try:
            make(name)
        except Exception as error:  # an unknown library may raise anything
            if is_from_handler(error):
                raise
            return False
        return True

    return is_accepted


def dtypes(module: ModuleType, device: Any) -> frozenset[str]:
    """Return the dtypes that the module can make arrays of."""

    def make(name: str) -> None:
        cast = cast_for(np.dtype("float32"), frozenset({name}), name)
        assert cast is not None
        from_numpy(module, np.ones(1, cast.dtype), device, False)

    return frozenset(filter(accepts(make), STANDARD | ML_DTYPES))


def default_dtypes(module: ModuleType, device: Any) -> dict[type, str]:
    """Return the dtypes that `module.asarray` gives to Python's numbers."""
    return {kind: _default_dtype(module, kind, device) for kind in (int, float, complex)}


def _default_dtype(module: ModuleType, kind: type, device: Any) -> str:
    options = {} if device is None else {"device": device}
    try:
        return dtype_name(module.asarray(kind(1), **options).dtype)
    except Exception as error:  # an unknown library may raise anything
        if is_from_handler(error):
            raise
        return WIDE[kind]


@cache
def framework_of_module(module: ModuleType) -> Framework:
    """Return the framework whose namespace is this module."""
    return Framework(
        name=module.__name__,
        modules=(module.__name__,),
        arrays=(),
        to_numpy=to_numpy,
        from_numpy=partial(from_numpy, module),
        dtypes=cache(partial(dtypes, module)),
        default_dtypes=cache(partial(default_dtypes, module)),
        devices=Devices(
            find=partial(find_device, module),
            available=partial(available_devices, module),
            on_host=lambda array: not _is_on_gpu(array),
        ),
    )


_PROTOCOLS = ("__array_namespace__", "__dlpack__", "__cuda_array_interface__")


def framework_of_type(cls: type) -> Framework | None:
    """Return the framework that objects of this type belong to; None if they are not arrays."""
    if issubclass(cls, np.generic):  # a number, not an array
        return None
    if not any(hasattr(cls, name) for name in _PROTOCOLS):
        return None
    name = str(cls.__module__).partition(".")[0]
    return framework_of_module(sys.modules.get(name) or ModuleType(name))
