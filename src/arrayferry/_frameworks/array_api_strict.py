"""array-api-strict: the array API standard and nothing else, with devices that stand in for real ones.

* a NumPy array -> `asarray`, on its memory
* an array on `device1` or another -> moved to the CPU first, as if it were a GPU's
* float16, bfloat16 and float8, which the standard has not -> float32
* float64 on `no_float64`, 64-bit dtypes on `no_x64` -> narrowed, checked
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import STANDARD, dtype_name
from arrayferry._core.framework import Array, Devices, Framework
from arrayferry.errors import DeviceError, SharingError

if TYPE_CHECKING:
    import array_api_strict

CPU = "CPU_DEVICE"


def to_numpy(array: Any, share: bool) -> Array:
    """A view of an array on the CPU; else a fresh array."""
    import array_api_strict as xp

    if share and array.device != xp.Device(CPU):
        raise SharingError(f"NumPy cannot see the memory of {array.device}", "copy=None")
    return np.asarray(array.to_device(xp.Device(CPU)))


def from_numpy(array: Array, device: array_api_strict.Device | None, share: bool) -> Any:
    """An array on the same memory, wherever the device pretends to be."""
    import array_api_strict as xp

    if share and device not in (None, xp.Device(CPU)):
        what = f"array-api-strict cannot share this memory: it is not on {device}"
        raise SharingError(what, "copy=None")
    return xp.asarray(array, device=device, copy=False if share else None)


def device(spec: Any) -> array_api_strict.Device | None:
    """An `array_api_strict.Device`, by its name; `"cpu"` is `"CPU_DEVICE"`."""
    import array_api_strict as xp

    if spec is None or isinstance(spec, xp.Device):
        return spec
    try:
        return xp.Device(CPU if str(spec).lower() == "cpu" else spec)
    except ValueError as error:
        hint = f"the devices here are: {', '.join(devices())}"
        raise DeviceError(f"array-api-strict has no device {str(spec)!r}", hint) from error


def device_name(device: array_api_strict.Device) -> str:
    """`"device1"`, the one thing between quotes in `array_api_strict.Device('device1')`."""
    return str(device).split("'")[1]


def devices() -> tuple[str, ...]:
    """The CPU, and those that only pretend."""
    import array_api_strict as xp

    return tuple(device_name(one) for one in xp.__array_namespace_info__().devices())


@cache
def dtypes(device: array_api_strict.Device | None) -> frozenset[str]:
    """What `asarray` accepts there."""
    return frozenset(name for name in STANDARD if _accepts(name, device))


def _accepts(name: str, device: array_api_strict.Device | None) -> bool:
    import array_api_strict as xp

    try:
        xp.asarray(np.empty(0, name), device=device)
    except (TypeError, ValueError):
        return False
    return True


@cache
def default_dtypes(device: array_api_strict.Device | None) -> dict[type, str]:
    """Its `device2` has other defaults than the rest."""
    import array_api_strict as xp

    return {kind: dtype_name(xp.asarray(kind(1), device=device).dtype) for kind in (int, float, complex)}


FRAMEWORK = Framework(
    name="array_api_strict",
    modules=("array_api_strict",),
    # Its class has no public name. Should this one move, its arrays are still met as those of any
    # array API library.
    arrays=("array_api_strict._array_object:Array",),
    distributions=("array-api-strict",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=dtypes,
    devices=Devices(find=device, name=device_name, available=devices, of=lambda array: array.device),
    default_dtypes=default_dtypes,
)
