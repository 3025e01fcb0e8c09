"""CuPy: arrays on CUDA and ROCm devices.

* a NumPy array -> `cupy.asarray` on the device, complete when it returns
* an array of another framework on the same GPU -> DLPack, then a copy there
* a CuPy array -> `.get()`, a fresh NumPy array
* bfloat16 and float8 -> float32, which every version of CuPy has
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from arrayferry._core.dtypes import STANDARD
from arrayferry._core.framework import Array, Devices, Framework
from arrayferry.errors import DeviceError, SharingError

if TYPE_CHECKING:
    import cupy

__all__ = ["FRAMEWORK"]


def to_numpy(array: cupy.ndarray, share: bool) -> Array:
    """Return a fresh array: NumPy cannot see the memory of a GPU."""
    if share:
        raise SharingError(f"NumPy cannot see the memory of {array.device}", "pass copy=None")
    found: Array = array.get()
    return found


def from_numpy(array: Array, device: Any, share: bool) -> cupy.ndarray:
    """Return a copy on the device, complete when this returns."""
    import cupy

    if share:
        raise SharingError("CuPy cannot share this memory: it is not on a GPU", "pass copy=None")
    with nullcontext() if device is None else device:
        copy = cupy.asarray(array)
        cupy.cuda.get_current_stream().synchronize()
    return copy


def copy_within(array: cupy.ndarray, device: Any, dtype: str | None, share: bool) -> cupy.ndarray:
    """Return a copy, complete when this returns; with `share`, the array itself."""
    import cupy

    if share:
        if dtype not in (None, array.dtype.name) or device not in (None, array.device):
            what = f"{array.dtype} on {array.device} is not {dtype or array.dtype} on {device}"
            raise SharingError(what, "pass copy=None, which converts it")
        return array
    with array.device if device is None else device:
        copy = cupy.array(array, dtype=dtype, copy=True, order="C")
        cupy.cuda.get_current_stream().synchronize()
    return copy


def from_dlpack(array: Any) -> cupy.ndarray:
    """Return an array on the same device memory."""
    import cupy

    return cupy.from_dlpack(array) if hasattr(array, "__dlpack__") else cupy.asarray(array)


def find_device(spec: Any) -> Any:
    """Return a `cupy.cuda.Device` for `1`, `"cuda:1"` or `"cuda"`, the device that is the current one now."""
    import cupy

    if spec is None:
        return None
    name = device_name(spec) if isinstance(spec, cupy.cuda.Device) else str(spec)
    index = name.removeprefix("cuda").removeprefix(":")
    if name == "cuda" and available_devices():
        index = str(cupy.cuda.Device().id)
    if f"cuda:{index}" not in available_devices():
        here = ", ".join(available_devices()) or "none, no CUDA device is visible"
        raise DeviceError(f"CuPy has no device {str(spec)!r} here", f"the devices here are: {here}")
    return cupy.cuda.Device(int(index))


def device_name(device: Any) -> str:
    """Return a name such as `"cuda:1"`."""
    return f"cuda:{device.id}"


def available_devices() -> tuple[str, ...]:
    """Return the names of the GPUs: none if CuPy is installed without a driver."""
    import cupy

    try:
        return tuple(f"cuda:{i}" for i in range(cupy.cuda.runtime.getDeviceCount()))
    except RuntimeError:  # cudaErrorNoDevice, cudaErrorInsufficientDriver
        return ()


FRAMEWORK = Framework(
    name="cupy",
    modules=("cupy",),
    arrays=("cupy:ndarray",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=lambda device: STANDARD,
    devices=Devices(
        find=find_device,
        name=device_name,
        available=available_devices,
        on_host=lambda array: False,
        reads=lambda device_type: device_type in (2, 10),  # CUDA or ROCm, whichever it is built for
    ),
    copy_within=copy_within,
    from_dlpack=from_dlpack,
    # One distribution for each version of CUDA; `cupy` itself is built from source.
    distributions=("cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x", "cupy"),
)
