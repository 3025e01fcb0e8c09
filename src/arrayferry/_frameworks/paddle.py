"""Paddle: dense eager tensors on the CPU, on GPUs and on any other device that Paddle knows.

* a NumPy array -> `paddle.from_dlpack` of private memory, moved to the device
* bfloat16 and float8 -> through an integer of the same width, bit for bit
* uint16 -> int32: Paddle would take it for the bits of a bfloat16
* stop_gradient=False -> detached
* sparse and distributed tensors -> refused
"""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD, defaults_with, numpy_dtype
from arrayferry._core.framework import Array, Framework, Source, Target, no_view
from arrayferry._core.ownership import STRIDED
from arrayferry._frameworks._lazy import paddle
from arrayferry.errors import NotInstalledError, UnsupportedError


class Paddle(Framework):
    """Paddle's tensors, and its devices, which are known by their names."""

    name, modules, arrays = "paddle", ("paddle",), ("paddle:Tensor",)
    distributions = ("paddlepaddle", "paddlepaddle-gpu")

    def source(self, cls: type) -> Source:
        """Return how tensors are read: by DLPack, moved to the CPU."""
        return Source(read=read, view=view, device_of=device_of)

    def target(self, device: str | None) -> Target:
        """Return how tensors are made on a device, by default on Paddle's current one."""
        return Target(
            take=lambda array: paddle.from_dlpack(array).to(device or paddle.get_device()),
            dtypes=dtypes,
            defaults=lambda: defaults_with(_dtype_name(paddle.get_default_dtype())),
            from_bits=lambda bits, name: bits.view(name),
            share=(lambda array: paddle.from_dlpack(array)) if device in (None, "cpu") else None,
            needs=STRIDED,
            holds=lambda tensor: device in (None, device_of(tensor)),
        )

    def find_device(self, spec: Any) -> str | None:
        """Return the name of a device that tensors can be made on, such as `"cpu"` or `"gpu:0"`."""
        if spec is None:
            return None
        try:
            return _short_name(paddle.zeros(1).to(_short_name(spec)).place)
        except Exception as error:  # a build without that device raises AttributeError, among others
            raise self.no_device(spec) from error

    def device_names(self) -> tuple[str, ...]:
        """Return the names of the CPU and of the accelerators."""
        return tuple(dict.fromkeys(["cpu", *paddle.device.get_available_device()]))

    def load(self) -> ModuleType:
        """Refuse to import Paddle into a process that has TensorFlow: they clash, and the process crashes."""
        if "tensorflow" in sys.modules and "paddle" not in sys.modules:
            what = "paddle cannot be imported after tensorflow: the process would crash"
            raise NotInstalledError(what, "import paddle first, before tensorflow and what imports it")
        return super().load()


def read(tensor: paddle.Tensor) -> Array | None:
    """Return a view of the tensor's memory, or a fresh array where it is not on the CPU."""
    _refuse_if_no_values(tensor)
    name, plain = _dtype_name(tensor.dtype), tensor.detach().cpu()
    if name in STANDARD:
        return np.from_dlpack(plain)
    if name not in ML_DTYPES:
        return None
    dtype = numpy_dtype(name)
    return np.from_dlpack(plain.view("int16" if dtype.itemsize == 2 else "uint8")).view(dtype)


def view(tensor: paddle.Tensor) -> Array | None:
    """Return a view of the tensor's memory."""
    _refuse_if_no_values(tensor)
    return read(tensor) if tensor.place.is_cpu_place() else no_view(tensor)


def device_of(tensor: Any) -> str:
    """Return the name of the device that a tensor is on."""
    _refuse_if_no_values(tensor)
    return _short_name(tensor.place)


def _short_name(place: Any) -> str:
    """Return `gpu:0` for `Place(gpu:0)`."""
    return str(place).removeprefix("Place(").removesuffix(")")


def _dtype_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


@cache
def dtypes() -> frozenset[str]:
    """Return the dtypes that Paddle has, the same on all devices."""
    # `paddle.uint16` is bfloat16: https://github.com/PaddlePaddle/Paddle/issues/34927.
    known = STANDARD | ML_DTYPES
    return frozenset(name for name in known if _dtype_name(getattr(paddle, name, "")) == name)


def _refuse_if_no_values(tensor: Any) -> None:
    # Reading the values of a sparse tensor crashes the process:
    # https://github.com/PaddlePaddle/Paddle/issues/46642.
    if not tensor.is_dense():
        kind, instead = ("sparse", ".to_dense()") if tensor.is_sparse() else ("distributed", ".full_tensor()")
        raise UnsupportedError(f"a {kind} tensor cannot be converted", f"call {instead} first")
