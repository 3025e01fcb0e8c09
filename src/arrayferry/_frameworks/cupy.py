"""CuPy: arrays on CUDA and ROCm devices.

* a NumPy array -> a copy on the device, in the order of its current stream
* an array of another framework on the same GPU -> DLPack, then a copy there
* a CuPy array -> `.get()`, a fresh NumPy array
* bfloat16 and float8 -> float32, which every version of CuPy has
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from arrayferry._core.dtypes import STANDARD
from arrayferry._core.framework import Deferred, Framework, Source, Target
from arrayferry._core.generic import CUDA_VIEWS, WAYS
from arrayferry._core.holds import hold_sources
from arrayferry._frameworks._lazy import cupy

# Only where it is imported already: an array of another library may be on a GPU without it.
CUDA_VIEWS.append(lambda array: sys.modules["cupy"].asarray(array))
WAYS.append(lambda array: sys.modules["cupy"].asarray(array).get())


class CuPy(Framework):
    """CuPy's arrays, and the GPUs."""

    name, modules, arrays = "cupy", ("cupy",), ("cupy:ndarray",)
    # One distribution for each version of CUDA; `cupy` itself is built from source.
    distributions = ("cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x", "cupy")

    def source(self, cls: type) -> Source:
        """Return how its arrays are read: NumPy cannot see the memory of a GPU."""
        return Source(
            read=lambda array: array.get(),
            device_of=lambda array: array.device,
            on_host=lambda array: False,
            guard=lambda array: array.device,
        )

    def target(self, device: Any) -> Target:
        """Return how its arrays are made on a GPU, by default on the current one."""
        return Target(
            take=lambda array: copy_to(device or cupy.cuda.Device(), array),
            dtypes=lambda: STANDARD,
            within=lambda array, dtype: defer_copy(device or array.device, array, dtype),
            holds=lambda array: device in (None, array.device),
            alias=lambda array: cupy.from_dlpack(array),
            can_alias=lambda device_type: device_type in (2, 10),  # CUDA or ROCm, whichever it is built for
        )

    def devices(self) -> list[Any]:
        """Return the GPUs: none if CuPy is installed without a driver."""
        try:
            return [cupy.cuda.Device(i) for i in range(cupy.cuda.runtime.getDeviceCount())]
        except RuntimeError:  # cudaErrorNoDevice, cudaErrorInsufficientDriver
            return []

    def find_device(self, spec: Any) -> Any:
        """Return a `cupy.cuda.Device` for `1`, `"cuda:1"` or `"cuda"`, the device that is the current one."""
        if spec == "cuda" and self.devices():
            return cupy.cuda.Device()
        return super().find_device(f"cuda:{spec}" if isinstance(spec, int) else spec)

    def device_name(self, device: Any) -> str:
        """Return a name such as `"cuda:1"`."""
        return f"cuda:{device.id}"


def copy_to(device: Any, array: Any, dtype: str | None = None) -> cupy.ndarray:
    """Return a copy on a device."""
    with device:
        return cupy.array(array, dtype=dtype, copy=True, order="C")


def defer_copy(device: Any, array: cupy.ndarray, dtype: str | None) -> Any:
    """Return a copy on a device, in the order of the streams, that reads the array until then."""
    if device != array.device:  # CuPy itself orders the streams of one device only
        with array.device:
            done = cupy.cuda.get_current_stream().record()
        with device:
            cupy.cuda.get_current_stream().wait_event(done)
    return Deferred(copy_to(device, array, dtype), hold_sources, (record, device, array))


def record(device: Any) -> tuple[Callable[[], bool], Callable[[], Any]]:
    """Record an event on a device's current stream; return whether it has passed, and how to wait for it."""
    with device:
        event = cupy.cuda.get_current_stream().record()
    return lambda: bool(event.done), event.synchronize
