"""array-api-strict: the array API standard and nothing else, with devices that stand in for real ones.

* a NumPy array -> `asarray`, on the same memory
* an array on `device1` or the like -> moved to the CPU first, as if it were on a GPU (with NumPy 2 only)
* float16, bfloat16 and float8, which the standard does not have -> float32
* float64 on `no_float64`, 64-bit dtypes on `no_x64` -> narrowed, checked
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import STANDARD
from arrayferry._core.framework import Array, Devices, Framework
from arrayferry._frameworks._generic import accepts, default_dtypes
from arrayferry.errors import DeviceError, SharingError

if TYPE_CHECKING:
    import array_api_strict

__all__ = ["FRAMEWORK"]

_CPU = "CPU_DEVICE"


def to_numpy(array: Any, share: bool) -> Array:
    """Return a view of an array on the CPU, or a fresh array of one on another device."""
    import array_api_strict as xp

    if share and array.device != xp.Device(_CPU):
        raise SharingError(f"NumPy cannot see the memory of {array.device}", "pass copy=None")
    return np.asarray(array.to_device(xp.Device(_CPU)))


def from_numpy(array: Array, device: array_api_strict.Device | None, share: bool) -> Any:
    """Return an array on the same memory: the devices only pretend to have their own."""
    import array_api_strict as xp

    if share and device not in (None, xp.Device(_CPU)):
        what = f"array-api-strict cannot share this memory: it is not on {device}"
        raise SharingError(what, "pass copy=None")
    return xp.asarray(array, device=device, copy=False if share else None)


def find_device(spec: Any) -> array_api_strict.Device | None:
    """Return the `array_api_strict.Device` of this name; `"cpu"` means `"CPU_DEVICE"`."""
    import array_api_strict as xp

    if spec is None or isinstance(spec, xp.Device):
        return spec
    try:
        return xp.Device(_CPU if str(spec).lower() == "cpu" else spec)
    except ValueError as error:
        hint = f"the devices here are: {', '.join(available_devices())}"
        raise DeviceError(f"array-api-strict has no device {str(spec)!r}", hint) from error


def device_name(device: array_api_strict.Device) -> str:
    """Return `"device1"`, the part between quotes in `array_api_strict.Device('device1')`."""
    return str(device).split("'")[1]


def available_devices() -> tuple[str, ...]:
    """Return the names of the CPU and of the simulated devices."""
    import array_api_strict as xp

    return tuple(device_name(device) for device in xp.__array_namespace_info__().devices())


@cache
def dtypes(device: array_api_strict.Device | None) -> frozenset[str]:
    """Return the dtypes that `asarray` accepts on the device."""
    import array_api_strict as xp

    return frozenset(filter(accepts(lambda name: xp.asarray(np.empty(0, name), device=device)), STANDARD))


FRAMEWORK = Framework(
    name="array_api_strict",
    modules=("array_api_strict",),
    # The class has no public name. If this one moves, its arrays are converted like those of any
    # other array API library.
    arrays=("array_api_strict._array_object:Array",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=dtypes,
    default_dtypes=cache(lambda device: default_dtypes(sys.modules["array_api_strict"], device)),
    devices=Devices(
        find=find_device,
        name=device_name,
        available=available_devices,
        of=lambda array: array.device,
    ),
    distributions=("array-api-strict",),
)
