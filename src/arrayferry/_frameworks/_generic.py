"""Any array library that nobody registered: what the array API standard and DLPack say is enough.

* as a target -> `module.asarray` of private memory, and a look whether dtype and shape are the same
* as a source -> by DLPack, `__array__` or a method of its own, whichever gives a true array
* its dtypes and its defaults -> found out by trying
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD, cast_for, dtype_name
from arrayferry._core.framework import Array, Devices, Framework
from arrayferry.errors import DeviceError, SharingError, UnsupportedError

_VIEWS: tuple[Callable[[Any], Any], ...] = (lambda array: np.from_dlpack(array, copy=False),)
_COPIES: tuple[Callable[[Any], Any], ...] = (
    np.from_dlpack,
    lambda array: np.from_dlpack(array, device="cpu"),
    lambda array: array.__array__(),
    lambda array: array.numpy(),
    lambda array: array.to_numpy(),
    lambda array: array.unwrap_numpy(),
)


@cache
def make(module: ModuleType) -> Framework:
    """The framework whose namespace is this module."""
    return Framework(
        name=module.__name__,
        modules=(module.__name__,),
        arrays=(),
        to_numpy=to_numpy,
        from_numpy=partial(from_numpy, module),
        dtypes=cache(partial(dtypes, module)),
        devices=Devices(find=partial(device, module), available=lambda: tuple(map(str, _devices(module)))),
        default_dtypes=cache(partial(default_dtypes, module)),
    )


def source(cls: type) -> Framework | None:
    """The framework that objects of this type come from, if they are arrays at all."""
    if not (hasattr(cls, "__array_namespace__") or hasattr(cls, "__dlpack__")):
        return None
    name = cls.__module__.partition(".")[0]
    return make(sys.modules.get(name) or ModuleType(name))


def to_numpy(array: Any, share: bool) -> Array | None:
    """A view or a copy, whatever the array gives. None if that is nothing like numbers."""
    counterpart = True
    for look in _VIEWS if share else _COPIES:
        try:
            found = look(array)
        except Exception:  # nobody knows what it raises
            continue
        if isinstance(found, np.ma.MaskedArray):
            return None
        found = np.asarray(found)
        if found.dtype.name not in STANDARD | ML_DTYPES and _shape(array, found) == found.shape:
            counterpart = False  # objects, strings; but another look may tell more
        elif _are_alike(array, found):
            return found
    if not counterpart:
        return None
    kind = f"{type(array).__module__}.{type(array).__qualname__}"
    if share:
        raise SharingError(f"{kind} does not share its memory", "copy=None")
    what = f"{kind} does not give its values to NumPy"
    raise UnsupportedError(what, "convert it by hand, or register_framework()")


def from_numpy(module: ModuleType, array: Array, device: Any, share: bool) -> Any:
    """An array of the same dtype and shape, or an error."""
    create = getattr(module, "asarray", None) or module.from_dlpack
    options = {} if device is None else {"device": device}
    if share:
        return _alias(create, array, options)
    found = create(array, **options)
    if not _are_alike(found, array):
        made = f"{dtype_name(found.dtype)}{list(found.shape)}"
        what = f"{module.__name__} made {made} of {array.dtype.name}{list(array.shape)}"
        raise UnsupportedError(what, "convert it by hand, or register_framework()")
    return found


def _alias(create: Callable[..., Any], array: Array, options: dict[str, Any]) -> Any:
    try:
        found = create(array, copy=False, **options)
        shares = np.shares_memory(to_numpy(found, True), array) or not array.size
    except Exception as error:  # nobody knows what it raises
        raise SharingError(f"this memory cannot be shared: {error}", "copy=None") from error
    if not shares:
        raise SharingError("this memory was copied, although copy=False", "copy=None")
    return found


def _are_alike(array: Any, other: Array) -> bool:
    """Whether the values can be the same; what an array does not tell cannot differ."""
    name: str = other.dtype.name
    return _shape(array, other) == other.shape and dtype_name(getattr(array, "dtype", other.dtype)) == name


def _shape(array: Any, other: Array) -> tuple[Any, ...]:
    return tuple(getattr(array, "shape", other.shape))


def device(module: ModuleType, spec: Any) -> Any:
    """One of the devices that the module lists, itself or by name."""
    if spec is None:
        return None
    for known in _devices(module):
        if spec is known or str(spec) == str(known):
            return known
    here = ", ".join(map(str, _devices(module))) or "unknown, leave it out"
    raise DeviceError(f"{module.__name__} lists no device {str(spec)!r}", f"the devices here are: {here}")


def _devices(module: ModuleType) -> tuple[Any, ...]:
    info = getattr(module, "__array_namespace_info__", None)
    return tuple(info().devices()) if info else ()


def dtypes(module: ModuleType, device: Any) -> frozenset[str]:
    """Those of which the module makes an array of the same dtype."""
    return frozenset(name for name in STANDARD | ML_DTYPES if _holds(module, device, name))


def _holds(module: ModuleType, device: Any, name: str) -> bool:
    try:
        cast = cast_for(np.dtype("float32"), frozenset({name}), name)
        assert cast is not None
        from_numpy(module, np.ones(1, cast.dtype), device, False)
    except Exception:  # nobody knows what it raises
        return False
    return True


def default_dtypes(module: ModuleType, device: Any) -> dict[type, str]:
    """As `module.asarray`."""
    return {kind: _default(module, kind) for kind in (int, float, complex)}


def _default(module: ModuleType, kind: type) -> str:
    try:
        return dtype_name(module.asarray(kind(1)).dtype)
    except Exception:  # nobody knows what it raises
        return dtype_name(np.asarray(kind(1)).dtype)
