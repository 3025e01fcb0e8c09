"""Warp: arrays for simulation kernels, on the CPU or CUDA.

* a NumPy array -> an array of scalars that takes the memory over, or a copy on the GPU
* a number, a 0-d array -> a scalar such as `wp.float32(0.5)`: Warp has no 0-d arrays
* more than four dimensions -> refused: Warp supports no more
* an array of vectors, matrices, quaternions or transforms -> the axes of its elements come last
* an array of structs -> a structured array in NumPy; elsewhere it has no counterpart
* an `indexedarray` -> the elements that it selects
* `requires_grad` -> results carry no gradient
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import STANDARD, dtype_name
from arrayferry._core.framework import Array, Devices, Framework
from arrayferry.errors import DeviceError, SharingError, UnsupportedError

if TYPE_CHECKING:
    import warp as wp

__all__ = ["FRAMEWORK"]

_MOST_DIMENSIONS = 4
_DTYPES = STANDARD - {"complex64", "complex128"}


def to_numpy(array: Any, share: bool) -> Array:
    """Return a view of an array on the CPU, or a fresh array."""
    if _is_scalar(array):
        if share:
            raise SharingError(
                f"a wp.{type(array).__name__} is a number, and numbers share nothing", "pass copy=None"
            )
        return _from_scalar(array.value, type(array).__name__)
    if share and not (array.device.is_cpu and _sees_memory(array)):
        raise SharingError(f"NumPy cannot see the memory of this {type(array).__name__}", "pass copy=None")
    found: Array = array.numpy()
    return found


def _from_scalar(value: Any, dtype: str) -> Array:
    if dtype in _DTYPES:
        return np.array(value, dtype)
    from ml_dtypes import bfloat16

    if value == value:
        return np.array(value, bfloat16)
    # The cast would make all NaNs the same: the upper half of a float32 keeps their bits.
    halves: Array = np.array(value, np.float32).view(np.uint32) >> np.uint32(16)
    return halves.astype(np.uint16).view(bfloat16)


def _is_scalar(array: Any) -> bool:
    return not hasattr(array, "shape")


def _sees_memory(array: Any) -> bool:
    import warp as wp

    return isinstance(array, wp.array)  # not an indexedarray, which would have to be gathered


def from_numpy(array: Array, device: Any, share: bool) -> Any:
    """Return an array on the same memory, or a complete copy on the GPU; for a 0-d array, a scalar."""
    import warp as wp

    there = wp.get_device(device)
    if share and not (there.is_cpu and array.flags.writeable):
        why = "it is read-only" if there.is_cpu else f"it is not on {there}"
        raise SharingError(f"Warp cannot share this memory: {why}", "pass copy=None")
    if array.ndim > _MOST_DIMENSIONS:
        what = f"this array has {array.ndim} dimensions, but Warp's have {_MOST_DIMENSIONS} at most"
        raise UnsupportedError(what, "reshape it before it is converted")
    if array.ndim == 0:
        if share:
            raise SharingError("Warp has no 0-d arrays, and its numbers share nothing", "pass copy=None")
        return getattr(wp, array.dtype.name)(array.item())
    return wp.array(array, device=there, copy=not there.is_cpu)


def copy_within(array: Any, device: Any, dtype: str | None, share: bool) -> Any:
    """Return a complete copy of the same Warp type; with `share`, the array itself."""
    import warp as wp

    if _is_scalar(array):
        return array if dtype is None else getattr(wp, dtype)(array.value)
    casts = dtype is not None and dtype != dtype_name(array.dtype)
    there = array.device if device is None else device
    if share:
        if casts or there != array.device:
            name = dtype_name(array.dtype)
            what = f"{name} on {array.device} is not {dtype or name} on {there}"
            raise SharingError(what, "pass copy=None, which converts it")
        return array
    copy = (
        wp.array(array.numpy().astype(dtype), device=there)
        if casts
        else wp.clone(array, device=there, requires_grad=False)
    )
    wp.synchronize_device(there)
    return copy


def from_dlpack(array: Any) -> wp.array[Any]:
    """Return an array on the same device memory."""
    import warp as wp

    return wp.from_dlpack(array)


def find_device(spec: Any) -> Any:
    """Return a `wp.Device` for a name such as `"cpu"` or `"cuda:0"`."""
    import warp as wp

    if spec is None:
        return None
    try:
        return wp.get_device(spec)
    except (ValueError, RuntimeError) as error:
        hint = f"the devices here are: {', '.join(available_devices())}"
        raise DeviceError(f"Warp has no device {str(spec)!r} here", hint) from error


def device_name(device: Any) -> str:
    """Return a name such as `"cuda:0"`."""
    return str(device.alias)


def available_devices() -> tuple[str, ...]:
    """Return the names of the CPU and of all GPUs."""
    import warp as wp

    return tuple(device.alias for device in wp.get_devices())


def on_host(array: Any) -> bool:
    """Return False for an array on a GPU."""
    return _is_scalar(array) or bool(array.device.is_cpu)


def dtypes(device: Any) -> frozenset[str]:
    """Return NumPy's dtypes except the complex ones, and bfloat16 in versions that have it."""
    import warp as wp

    return _DTYPES | {"bfloat16"} if hasattr(wp, "bfloat16") else _DTYPES


FRAMEWORK = Framework(
    name="warp",
    modules=("warp",),
    # Its scalars too, which stand for 0-d arrays.
    arrays=("warp:array", "warp:indexedarray", *(f"warp:{name}" for name in sorted({*_DTYPES, "bfloat16"}))),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=dtypes,
    devices=Devices(
        find=find_device,
        name=device_name,
        available=available_devices,
        of=lambda array: None if _is_scalar(array) else array.device,
        on_host=on_host,
        reads=lambda device_type: device_type == 2 and any(name != "cpu" for name in available_devices()),
    ),
    copy_within=copy_within,
    from_dlpack=from_dlpack,
    distributions=("warp-lang",),
)
