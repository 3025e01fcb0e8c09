"""MLX: arrays in the unified memory of Apple silicon; on Linux, on the CPU or CUDA.

* a NumPy array -> a copy: MLX never takes memory over
* an MLX array -> evaluated, then a view of its memory
* bfloat16 -> through an integer of the same width, bit for bit
* float64 -> float64 on the CPU, float32 on the GPU, which cannot compute with it
* complex128 -> complex64
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayferry._core.dtypes import STANDARD, numpy_dtype
from arrayferry._core.framework import NARROW, Array, Framework, Source, Target
from arrayferry._frameworks._lazy import mx

_CPU_DTYPES = STANDARD - {"complex128"} | {"bfloat16"}
_GPU_DTYPES = _CPU_DTYPES - {"float64"}


class MLX(Framework):
    """MLX's arrays. Its memory is unified: a device decides only on dtypes."""

    name, modules, arrays = "mlx", ("mlx.core", "mlx"), ("mlx.core:array",)
    distributions = ("mlx[cpu]", "mlx")  # on Linux, mlx alone has no backend

    def source(self, cls: type) -> Source:
        """Return how its arrays are read: NumPy sees their memory, unless it lacks the dtype."""
        return Source(read=read, view=read)

    def target(self, device: Any) -> Target:
        """Return how its arrays are made: they are copied."""
        return Target(
            # Without a dtype, float64 silently becomes float32.
            take=lambda array: mx.array(array, dtype=mx.float64 if array.dtype == np.float64 else None),
            dtypes=lambda: _CPU_DTYPES if (device or mx.default_device()).type == mx.cpu else _GPU_DTYPES,
            defaults=lambda: NARROW,
            from_bits=from_bits,
        )

    def devices(self) -> list[mx.Device]:
        """Return the CPU and, where there is one, the GPU."""
        return [mx.Device(kind) for kind in (mx.cpu, mx.gpu) if mx.is_available(kind)]

    def device_name(self, device: mx.Device) -> str:
        """Return `"cpu"` or `"gpu"`."""
        return str(device.type).rpartition(".")[2]


def read(array: mx.array) -> Array:
    """Return a view of the array's memory."""
    if array.dtype != mx.bfloat16:
        return np.asarray(array)
    return np.asarray(array.view(mx.uint16)).view(numpy_dtype("bfloat16"))


def from_bits(bits: mx.array, name: str) -> mx.array:
    """Return an array of the same bits, complete when this returns."""
    array = bits.view(getattr(mx, name))
    mx.eval(array)
    return array
