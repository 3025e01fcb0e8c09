"""Paddle: dense eager tensors on the CPU, on GPUs and on any other device that Paddle knows.

* a NumPy array -> `paddle.from_dlpack` of private memory, moved to the device
* bfloat16 and float8 -> through an integer of the same width, bit for bit
* uint16 -> int32: Paddle would take it for the bits of a bfloat16
* stop_gradient=False -> detached
* sparse and distributed tensors, variables of static programs -> refused
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Array, Devices, Framework
from arrayferry._core.ownership import obstacle_to_sharing
from arrayferry.errors import DeviceError, NotInstalledError, SharingError, UnsupportedError

if TYPE_CHECKING:
    import paddle

__all__ = ["FRAMEWORK"]


def to_numpy(tensor: paddle.Tensor, share: bool) -> Array | None:
    """Return a view of the tensor's memory, or a fresh array where it is not on the CPU."""
    _refuse_if_no_values(tensor)
    if share and not tensor.place.is_cpu_place():
        raise SharingError(f"NumPy cannot see the memory of {tensor.place}", "pass copy=None")
    name = _dtype_name(tensor.dtype)
    tensor = tensor.detach().cpu()
    if name in STANDARD:
        return np.from_dlpack(tensor)
    return _extended_to_numpy(tensor, name, share) if name in ML_DTYPES else None


def _extended_to_numpy(tensor: paddle.Tensor, name: str, share: bool) -> Array:
    """Return an array whose dtype NumPy has only through ml_dtypes; without ml_dtypes, as float32."""
    try:
        import ml_dtypes
    except ImportError:
        if share:
            raise SharingError(f"NumPy has no {name} without ml_dtypes", "pip install ml_dtypes") from None
        return np.from_dlpack(tensor.astype("float32"))
    bits = "int16" if tensor.element_size() == 2 else "uint8"
    return np.from_dlpack(tensor.view(bits)).view(getattr(ml_dtypes, name))


def _dtype_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def from_numpy(array: Array, device: str | None, share: bool) -> paddle.Tensor:
    """Return a tensor on the device, by default Paddle's current one; with `share`, on the same memory."""
    import paddle

    if not paddle.in_dynamic_mode():
        raise UnsupportedError("Paddle makes no tensors in static mode", "call paddle.disable_static() first")
    if share:
        _refuse_if_not_shareable(array, device)
        return _as_tensor(array)
    return _as_tensor(array).to(paddle.get_device() if device is None else device)


def _as_tensor(array: Array) -> paddle.Tensor:
    import paddle

    if array.dtype.name in STANDARD:
        return paddle.from_dlpack(array)
    bits = np.int16 if array.dtype.itemsize == 2 else np.uint8
    return paddle.from_dlpack(array.view(bits)).view(array.dtype.name)


def find_device(spec: Any) -> str | None:
    """Return the name of a device that tensors can be made on, such as `"cpu"` or `"gpu:0"`."""
    if spec is None:
        return None
    try:
        return _short_name(_as_tensor(np.zeros(1)).to(_short_name(spec)).place)
    except Exception as error:  # a build without that device raises AttributeError, among others
        hint = f"the devices here are: {', '.join(available_devices())}"
        raise DeviceError(f"Paddle has no device {str(spec)!r} here", hint) from error


def available_devices() -> tuple[str, ...]:
    """Return the names of the CPU and of the accelerators."""
    import paddle

    return tuple(dict.fromkeys(["cpu", *paddle.device.get_available_device()]))


def device_of(tensor: Any) -> str:
    """Return the name of the device that a tensor is on."""
    _refuse_if_no_values(tensor)
    return _short_name(tensor.place)


def _short_name(place: Any) -> str:
    """Return `gpu:0` for `Place(gpu:0)`."""
    return str(place).removeprefix("Place(").removesuffix(")")


@cache
def dtypes(device: str | None) -> frozenset[str]:
    """Return the dtypes that Paddle has, the same on all devices."""
    import paddle

    # `paddle.uint16` is bfloat16: https://github.com/PaddlePaddle/Paddle/issues/34927.
    known = STANDARD | ML_DTYPES
    return frozenset(name for name in known if _dtype_name(getattr(paddle, name, "")) == name)


def default_dtypes(device: Any) -> dict[type, str]:
    """Return the dtypes that `paddle.to_tensor` gives to numbers: floats get Paddle's default dtype."""
    import paddle

    default = _dtype_name(paddle.get_default_dtype())
    return {int: "int64", float: default, complex: "complex128" if default == "float64" else "complex64"}


def before_import() -> None:
    """Refuse to import Paddle into a process that has TensorFlow: the two clash, and the process crashes."""
    if "tensorflow" in sys.modules:
        what = "paddle cannot be imported after tensorflow: the process would crash"
        raise NotInstalledError(what, "import paddle first, before tensorflow and what imports it")


def _refuse_if_no_values(tensor: Any) -> None:
    import paddle

    if not isinstance(tensor, paddle.Tensor):
        what = "a variable of a static program has no values"
        raise UnsupportedError(what, "convert what Executor.run() returns")
    # Reading the values of a sparse tensor crashes the process:
    # https://github.com/PaddlePaddle/Paddle/issues/46642.
    if not tensor.is_dense():
        kind, instead = ("sparse", ".to_dense()") if tensor.is_sparse() else ("distributed", ".full_tensor()")
        raise UnsupportedError(f"a {kind} tensor cannot be converted", f"call {instead} first")


def _refuse_if_not_shareable(array: Array, device: str | None) -> None:
    elsewhere = device not in (None, "cpu")
    if obstacle := f"it is not on {device}" if elsewhere else obstacle_to_sharing(array):
        raise SharingError(f"Paddle cannot share this memory: {obstacle}", "pass copy=None")


FRAMEWORK = Framework(
    name="paddle",
    modules=("paddle",),
    arrays=("paddle:Tensor", "paddle.pir:Value", "paddle.static:Variable"),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=dtypes,
    default_dtypes=default_dtypes,
    devices=Devices(find=find_device, available=available_devices, of=device_of),
    distributions=("paddlepaddle", "paddlepaddle-gpu"),
    before_import=before_import,
)
