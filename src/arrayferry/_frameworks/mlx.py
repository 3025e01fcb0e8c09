"""MLX: arrays in the unified memory of Apple silicon; on Linux, on the CPU or CUDA.

* a NumPy array -> a copy: MLX never takes memory over
* an MLX array -> evaluated, then a view of its memory
* bfloat16 -> through uint16, bit for bit
* float64 -> float64 on the CPU, float32 on the GPU, which cannot compute with it
* complex128 -> complex64
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import STANDARD
from arrayferry._core.framework import Array, Devices, Framework
from arrayferry.errors import DeviceError, SharingError

if TYPE_CHECKING:
    import mlx.core as mx

__all__ = ["FRAMEWORK"]


def to_numpy(array: mx.array, share: bool) -> Array:
    """Return a view of the array's memory, or a fresh array where NumPy does not have its dtype."""
    import mlx.core as mx

    if array.dtype != mx.bfloat16:
        return np.asarray(array)
    try:
        import ml_dtypes
    except ImportError:
        if share:
            raise SharingError("NumPy has no bfloat16 without ml_dtypes", "pip install ml_dtypes") from None
        return np.asarray(array.astype(mx.float32))
    return np.asarray(array.view(mx.uint16)).view(ml_dtypes.bfloat16)


def from_numpy(array: Array, device: Any, share: bool) -> mx.array:
    """Return a copy, complete when this returns."""
    import mlx.core as mx

    if share:
        raise SharingError("MLX cannot share this memory: it copies what it is given", "pass copy=None")
    if array.dtype.name == "bfloat16":
        found = mx.array(array.view(np.uint16)).view(mx.bfloat16)
        mx.eval(found)
        return found
    # Without a dtype, float64 silently becomes float32.
    return mx.array(array, dtype=mx.float64 if array.dtype == np.float64 else None)


def find_device(spec: Any) -> mx.Device | None:
    """Return an `mx.Device` for `"cpu"` or `"gpu"`. Memory is unified: a device decides only on dtypes."""
    import mlx.core as mx

    if spec is None:
        return None
    for name in available_devices():
        found = mx.Device(getattr(mx, name))
        if spec in (name, f"{name}:0", found):
            return found
    hint = f"the devices here are: {', '.join(available_devices())}"
    raise DeviceError(f"MLX has no device {str(spec)!r} here", hint)


def device_name(device: mx.Device) -> str:
    """Return `"cpu"` or `"gpu"`."""
    return str(device.type).rpartition(".")[2]


def available_devices() -> tuple[str, ...]:
    """Return the names of the CPU and, where there is one, of the GPU."""
    import mlx.core as mx

    return ("cpu", "gpu") if mx.is_available(mx.gpu) else ("cpu",)


_CPU_DTYPES = STANDARD - {"complex128"} | {"bfloat16"}
_GPU_DTYPES = _CPU_DTYPES - {"float64"}


def dtypes(device: mx.Device | None) -> frozenset[str]:
    """Return the dtypes of the device; without one, of the default device."""
    import mlx.core as mx

    return _CPU_DTYPES if (device or mx.default_device()).type == mx.cpu else _GPU_DTYPES


def default_dtypes(device: mx.Device | None) -> dict[type, str]:
    """Return the dtypes that `mx.array` gives to Python's numbers."""
    return {int: "int32", float: "float32", complex: "complex64"}


FRAMEWORK = Framework(
    name="mlx",
    modules=("mlx.core", "mlx"),
    arrays=("mlx.core:array",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=dtypes,
    default_dtypes=default_dtypes,
    devices=Devices(find=find_device, name=device_name, available=available_devices),
    distributions=("mlx[cpu]", "mlx"),  # on Linux, mlx alone has no backend
)
