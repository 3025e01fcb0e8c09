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

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from arrayferry._core.dtypes import STANDARD, numpy_dtype
from arrayferry._core.framework import Array, Deferred, Framework, Source, Target, no_view
from arrayferry._core.holds import hold_sources
from arrayferry._core.ownership import STRIDED
from arrayferry._frameworks._lazy import wp
from arrayferry.errors import SharingError, UnsupportedError

_DTYPES = STANDARD - {"complex64", "complex128"}


class Warp(Framework):
    """Warp's arrays and scalars, and its devices."""

    name, modules = "warp", ("warp",)
    # Its scalars too, which stand for 0-d arrays.
    arrays = ("warp:array", "warp:indexedarray", *(f"warp:{name}" for name in sorted({*_DTYPES, "bfloat16"})))
    distributions = ("warp-lang",)

    def source(self, cls: type) -> Source:
        """Return how its arrays are read; an `indexedarray` must be gathered, and has no view."""
        if not issubclass(cls, (wp.array, wp.indexedarray)):
            return Source(read=read_scalar)
        return Source(
            read=lambda array: array.numpy(),
            view=view if issubclass(cls, wp.array) else no_view,
            device_of=lambda array: array.device,
            on_host=lambda array: bool(array.device.is_cpu),
            guard=lambda array: wp.ScopedDevice(array.device),
        )

    def target(self, device: Any) -> Target:
        """Return how its arrays are made on a device, by default on Warp's current one."""
        # Of versions that have it, bfloat16 too.
        dtypes = _DTYPES | {"bfloat16"} if hasattr(wp, "bfloat16") else _DTYPES
        return Target(
            take=partial(take, device),
            dtypes=lambda: dtypes,
            share=partial(share, device),
            needs=STRIDED,
            within=partial(copy_to, device),
            holds=lambda array: _is_scalar(array) or device in (None, array.device),
            alias=wp.from_dlpack,
            can_alias=lambda device_type: device_type == 2 and len(self.devices()) > 1,
        )

    def find_device(self, spec: Any) -> Any:
        """Return a `wp.Device` for a name such as `"cpu"` or `"cuda:0"`."""
        try:
            return None if spec is None else wp.get_device(spec)
        except (ValueError, RuntimeError) as error:
            raise self.no_device(spec) from error

    def device_name(self, device: Any) -> str:
        """Return a name such as `"cuda:0"`."""
        return str(device.alias)

    def devices(self) -> list[Any]:
        """Return the CPU and all GPUs."""
        devices: list[Any] = wp.get_devices()
        return devices


def read_scalar(scalar: Any) -> Array:
    """Return a 0-d array."""
    value, name = scalar.value, type(scalar).__name__
    dtype = numpy_dtype(name)
    if value == value or name in STANDARD:
        return np.array(value, dtype)
    # NumPy's cast to bfloat16 would make all NaNs the same: the upper half of a float32 keeps their bits.
    halves: Array = np.array(value, np.float32).view(np.uint32) >> np.uint32(16)
    return halves.astype(np.uint16).view(dtype)


def view(array: Any) -> Array:
    """Return a view of an array on the CPU."""
    return array.numpy() if array.device.is_cpu else no_view(array)


def take(device: Any, array: Array) -> Any:
    """Return an array on the same memory, or a complete copy on the GPU; for a 0-d array, a scalar."""
    if array.ndim > 4:  # Warp itself refuses that only where it copies
        raise UnsupportedError(f"this array has {array.ndim} dimensions, Warp's have 4 at most", "reshape it")
    if array.ndim == 0:
        return getattr(wp, array.dtype.name)(array.item())
    target = wp.get_device(device)
    return wp.array(array, device=target, copy=not target.is_cpu)


def share(device: Any, array: Array) -> Any:
    """Return an array on the same memory."""
    if array.ndim == 0:
        raise SharingError("Warp has no 0-d arrays, and its numbers share nothing", "pass copy=None")
    if not wp.get_device(device).is_cpu:
        what = f"Warp cannot share this memory: it is not on {wp.get_device(device)}"
        raise SharingError(what, "pass copy=None")
    return take(device, array)


def copy_to(device: Any, array: Any, dtype: str | None) -> Any:
    """Return a copy of the same Warp type on a device, in the order of the streams."""
    if _is_scalar(array):
        return array if dtype is None else getattr(wp, dtype)(array.value)
    target = array.device if device is None else device
    same = array if dtype is None else wp.array(array.numpy().astype(dtype), device=array.device)
    if target.is_cpu:
        copy = wp.clone(same, device=target, requires_grad=False)
        wp.synchronize_device(same.device)
        return copy
    if same.device.is_cuda and same.device != target:  # Warp itself orders the streams of one device only
        target.stream.wait_stream(same.device.stream)
    return Deferred(wp.clone(same, device=target, requires_grad=False), hold_sources, (record, target, same))


def record(device: Any) -> tuple[Callable[[], bool], Callable[[], Any]]:
    """Record an event on a device's current stream; return whether it has passed, and how to wait for it."""
    event = device.stream.record_event()
    return lambda: bool(event.is_complete), lambda: wp.synchronize_event(event)


def _is_scalar(array: Any) -> bool:
    return not hasattr(array, "shape")
