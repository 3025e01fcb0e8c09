"""TensorFlow: eager tensors, which cannot be written to.

* a NumPy array -> `tf.constant` on the device, a copy
* a tensor on the CPU -> a read-only view of its memory
* a `tf.Variable` -> its value at this moment
* string, resource and variant tensors -> unchanged
* symbolic, ragged, sparse and quantized tensors -> refused
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Array, Devices, Framework
from arrayferry._frameworks._generic import accepts
from arrayferry.errors import DeviceError, SharingError, UnsupportedError

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["FRAMEWORK"]

# The alignment that TensorFlow's kernels rely on. With less they abort the process: "Check failed:
# IsAligned()". See https://github.com/tensorflow/tensorflow/pull/36862.
_ALIGNMENT = 64


def to_numpy(tensor: tf.Tensor | tf.Variable, share: bool) -> Array | None:
    """Return a read-only view of a tensor on the CPU, or a fresh array for any other."""
    import tensorflow as tf

    _refuse_if_no_values(tensor)
    if tensor.dtype.name not in dtypes(None):
        return None
    if share and isinstance(tensor, tf.Variable):
        raise SharingError("a tf.Variable moves to other memory when it is assigned", "pass copy=None")
    if share and not _short_name(tensor.device).startswith("CPU"):
        raise SharingError(f"NumPy cannot see the memory of {tensor.device}", "pass copy=None")
    try:
        return np.asarray(tensor)
    except ValueError as error:  # a 0-d tensor of a dtype that NumPy has only through ml_dtypes
        if share:
            raise SharingError(f"NumPy cannot see this {tensor.dtype.name}", "pass copy=None") from error
        return np.asarray(tensor.numpy())


def from_numpy(array: Array, device: str | None, share: bool) -> tf.Tensor:
    """Return a tensor on the device with a copy of the values; with `share`, one on the same memory."""
    import tensorflow as tf

    if share:
        return _share(array, device)
    with nullcontext() if device is None else tf.device(device):
        return tf.constant(array)


def _share(array: Array, device: str | None) -> tf.Tensor:
    import tensorflow as tf

    for is_so, reason in (
        (device is not None and not device.startswith("CPU"), f"it is not on {device}"),
        (array.dtype.name not in STANDARD, f"NumPy does not export {array.dtype.name}"),
        (not array.flags.c_contiguous, "it is not contiguous"),
        (not array.flags.writeable, "it is read-only, and NumPy does not export that"),
        (array.ctypes.data % _ALIGNMENT != 0, f"its address is not a multiple of {_ALIGNMENT} bytes"),
    ):
        if is_so:
            raise SharingError(f"TensorFlow cannot share this memory: {reason}", "pass copy=None")
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def find_device(spec: Any) -> str | None:
    """Return a device's name if it is available: otherwise TensorFlow would silently use another."""
    import tensorflow as tf

    if spec is None:
        return None
    name = _short_name(spec.to_string() if isinstance(spec, tf.DeviceSpec) else getattr(spec, "name", spec))
    if name not in available_devices():
        hint = f"the devices here are: {', '.join(available_devices())}"
        raise DeviceError(f"TensorFlow has no device {str(spec)!r} here", hint)
    return name


def available_devices() -> tuple[str, ...]:
    """Return the names of the CPU, `"CPU:0"`, and of the accelerators."""
    import tensorflow as tf

    return tuple(_short_name(device.name) for device in tf.config.list_logical_devices())


def device_of(tensor: Any) -> str:
    """Return the name of the device that a tensor is on."""
    _refuse_if_no_values(tensor)
    return _short_name(tensor.device)


def _short_name(device: Any) -> str:
    """Return `CPU:0` for `cpu`, `/device:CPU:0` and `/job:localhost/replica:0/task:0/device:CPU:0`."""
    name = str(device).upper().rpartition("DEVICE:")[2].lstrip("/")
    return name if ":" in name else f"{name}:0"


@cache
def dtypes(device: str | None) -> frozenset[str]:
    """Return the dtypes that TensorFlow knows, the same on all devices."""
    import tensorflow as tf

    return frozenset(filter(accepts(tf.as_dtype), STANDARD | ML_DTYPES))


def default_dtypes(device: str | None) -> dict[type, str]:
    """Return the dtypes that `tf.constant` gives to Python's numbers."""
    return {int: "int32", float: "float32", complex: "complex128"}


def _refuse_if_no_values(tensor: Any) -> None:
    import tensorflow as tf

    for kind, what, instead in (
        (tf.RaggedTensor, "a ragged tensor has rows of different lengths", "call .to_tensor() first"),
        (tf.SparseTensor, "a sparse tensor cannot be converted", "call tf.sparse.to_dense() first"),
        (tf.IndexedSlices, "indexed slices cannot be converted", "call tf.convert_to_tensor() first"),
    ):
        if isinstance(tensor, kind):
            raise UnsupportedError(what, instead)
    if tf.is_symbolic_tensor(tensor):
        raise UnsupportedError("a symbolic tensor has no values yet", "convert outside of tf.function")
    if tensor.dtype.is_quantized:
        raise UnsupportedError("a quantized tensor cannot be converted", "tf.quantization.dequantize it")


FRAMEWORK = Framework(
    name="tensorflow",
    modules=("tensorflow",),
    arrays=tuple(
        f"tensorflow:{kind}" for kind in "Tensor Variable RaggedTensor SparseTensor IndexedSlices".split()
    ),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=dtypes,
    default_dtypes=default_dtypes,
    devices=Devices(find=find_device, available=available_devices, of=device_of),
    immutable=True,
    distributions=("tensorflow", "tensorflow-cpu", "tensorflow-macos"),
)
