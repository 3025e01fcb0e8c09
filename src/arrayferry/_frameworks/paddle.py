"""Paddle: dense eager tensors on the CPU, GPU, and whatever device Paddle knows.

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


def to_numpy(tensor: paddle.Tensor, share: bool) -> Array | None:
    """A view of the tensor's memory; a fresh array where it is not on the CPU."""
    _refuse_what_has_no_memory(tensor)
    if share and not tensor.place.is_cpu_place():
        raise SharingError(f"NumPy cannot see the memory of {tensor.place}", "copy=None")
    name = _name(tensor.dtype)
    tensor = tensor.detach().cpu()
    if name in STANDARD:
        return np.from_dlpack(tensor)
    return _extended_to_numpy(tensor, name, share) if name in ML_DTYPES else None


def _extended_to_numpy(tensor: paddle.Tensor, name: str, share: bool) -> Array:
    """NumPy has these dtypes through ml_dtypes, or not at all."""
    try:
        import ml_dtypes
    except ImportError:
        if share:
            raise SharingError(f"NumPy has no {name} without ml_dtypes", "pip install ml_dtypes") from None
        return np.from_dlpack(tensor.astype("float32"))
    bits = "int16" if tensor.element_size() == 2 else "uint8"
    return np.from_dlpack(tensor.view(bits)).view(getattr(ml_dtypes, name))


def from_numpy(array: Array, device: str | None, share: bool) -> paddle.Tensor:
    """A tensor on the array's memory, or on the device: on Paddle's current one, as `to_tensor`."""
    import paddle

    if not paddle.in_dynamic_mode():
        raise UnsupportedError("Paddle makes no tensors in static mode", "call paddle.disable_static() first")
    if share:
        _refuse_what_cannot_be_aliased(array, device)
        return _wrap(array)
    return _wrap(array).to(device or paddle.get_device())


def _wrap(array: Array) -> paddle.Tensor:
    import paddle

    if array.dtype.name in STANDARD:
        return paddle.from_dlpack(array)
    bits = np.int16 if array.dtype.itemsize == 2 else np.uint8
    return paddle.from_dlpack(array.view(bits)).view(array.dtype.name)


def device_of(tensor: Any) -> str:
    """The name of the device that it is on."""
    _refuse_what_has_no_memory(tensor)
    return _plain_name(tensor.place)


def device(spec: Any) -> str | None:
    """The name of a device on which tensors can be made: `"cpu"`, `"gpu:0"`."""
    if spec is None:
        return None
    try:
        return _plain_name(_wrap(np.zeros(1)).to(_plain_name(spec)).place)
    except Exception as error:  # a build without that device raises AttributeError, among others
        hint = f"the devices here are: {', '.join(devices())}"
        raise DeviceError(f"Paddle has no device {str(spec)!r} here", hint) from error


def _plain_name(place: Any) -> str:
    """`gpu:0`, of `Place(gpu:0)`."""
    return str(place).removeprefix("Place(").removesuffix(")")


def devices() -> tuple[str, ...]:
    """The CPU, and the accelerators."""
    import paddle

    return tuple(dict.fromkeys(["cpu", *paddle.device.get_available_device()]))


def dtypes(device: str | None) -> frozenset[str]:
    """The same everywhere."""
    return _dtypes()


@cache
def _dtypes() -> frozenset[str]:
    import paddle

    # `paddle.uint16` is bfloat16: https://github.com/PaddlePaddle/Paddle/issues/34927.
    known = STANDARD | ML_DTYPES
    return frozenset(name for name in known if _name(getattr(paddle, name, "")) == name)


def default_dtypes(device: Any) -> dict[type, str]:
    """As `paddle.to_tensor`: floats are of Paddle's default dtype."""
    import paddle

    default = _name(paddle.get_default_dtype())
    return {int: "int64", float: default, complex: "complex128" if default == "float64" else "complex64"}


def before_import() -> None:
    """Importing Paddle into a process that has TensorFlow ends it: their libraries clash."""
    if "tensorflow" in sys.modules:
        what = "paddle cannot be imported after tensorflow: the process would crash"
        raise NotInstalledError(what, "import paddle first, before tensorflow and what imports it")


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _refuse_what_has_no_memory(tensor: Any) -> None:
    import paddle

    if not isinstance(tensor, paddle.Tensor):
        what = "a variable of a static program has no values"
        raise UnsupportedError(what, "convert what Executor.run() returns")
    # Asked for its values, a sparse tensor ends the process:
    # https://github.com/PaddlePaddle/Paddle/issues/46642.
    if not tensor.is_dense():
        kind, instead = ("sparse", ".to_dense()") if tensor.is_sparse() else ("distributed", ".full_tensor()")
        raise UnsupportedError(f"a {kind} tensor cannot be converted", f"call {instead} first")


def _refuse_what_cannot_be_aliased(array: Array, device: str | None) -> None:
    elsewhere = device not in (None, "cpu")
    if obstacle := f"it is not on {device}" if elsewhere else obstacle_to_sharing(array):
        raise SharingError(f"Paddle cannot share this memory: {obstacle}", "copy=None")


FRAMEWORK = Framework(
    name="paddle",
    modules=("paddle",),
    arrays=("paddle:Tensor", "paddle.pir:Value", "paddle.static:Variable"),
    distributions=("paddlepaddle", "paddlepaddle-gpu"),
    before_import=before_import,
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=dtypes,
    devices=Devices(find=device, available=devices, of=device_of),
    default_dtypes=default_dtypes,
)
