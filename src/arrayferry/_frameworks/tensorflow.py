"""TensorFlow: eager tensors, which cannot be written to.

* a NumPy array -> `tf.constant` on the device, a copy, never shared: its kernels abort the process if
  memory is not aligned
* a tensor -> a fresh NumPy array; with `copy=False`, a read-only view of one on the CPU
* a `tf.Variable` -> its value at this moment
* string, resource, variant and quantized tensors -> unchanged; ragged and sparse ones, too
* symbolic tensors -> refused
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Array, Framework, Source, Target, no_view
from arrayferry._core.interruptions import attempt
from arrayferry._frameworks._lazy import tf
from arrayferry.errors import SharingError, UnsupportedError

_DEFAULTS: dict[type, str] = {int: "int32", float: "float32", complex: "complex128"}


class TensorFlow(Framework):
    """TensorFlow's tensors, and its devices, which are known by their names."""

    name, modules = "tensorflow", ("tensorflow",)
    arrays = ("tensorflow:Tensor", "tensorflow:Variable")
    distributions = ("tensorflow", "tensorflow-cpu", "tensorflow-macos")
    immutable = True

    def source(self, cls: type) -> Source:
        """Return how tensors are read: NumPy sees their memory on the CPU."""
        return Source(read=read, view=view, device_of=device_of)

    def target(self, device: str | None) -> Target:
        """Return how tensors are made on a device: they are copied."""

        def take(array: Array) -> tf.Tensor:
            with nullcontext() if device is None else tf.device(device):
                return tf.constant(array)

        return Target(
            take=take,
            dtypes=dtypes,
            defaults=lambda: _DEFAULTS,
            holds=lambda tensor: device in (None, device_of(tensor)),
        )

    def find_device(self, spec: Any) -> str | None:
        """Return a device's name if it is available: otherwise TensorFlow would silently use another."""
        if spec is None:
            return None
        given = spec.to_string() if isinstance(spec, tf.DeviceSpec) else getattr(spec, "name", spec)
        if _short_name(given) not in self.device_names():
            raise self.no_device(spec)
        return _short_name(given)

    def device_names(self) -> tuple[str, ...]:
        """Return the names of the CPU, `"CPU:0"`, and of the accelerators."""
        return tuple(_short_name(device.name) for device in tf.config.list_logical_devices())


def read(tensor: tf.Tensor | tf.Variable) -> Array | None:
    """Return a fresh array."""
    _refuse_if_no_values(tensor)
    # Without `numpy()`, NumPy reads no 0-d tensor of a dtype that it has only through ml_dtypes.
    return np.asarray(tensor.numpy()) if tensor.dtype.name in dtypes() else None


def view(tensor: tf.Tensor | tf.Variable) -> Array:
    """Return a read-only view of the tensor's memory."""
    _refuse_if_no_values(tensor)
    if isinstance(tensor, tf.Variable):
        raise SharingError("a tf.Variable moves to other memory when it is assigned", "pass copy=None")
    is_visible = device_of(tensor).startswith("CPU") and (tensor.ndim or tensor.dtype.name in STANDARD)
    return np.asarray(tensor) if is_visible else no_view(tensor)


def device_of(tensor: Any) -> str:
    """Return the name of the device that a tensor is on."""
    _refuse_if_no_values(tensor)
    return _short_name(tensor.device)


def _short_name(device: Any) -> str:
    """Return `CPU:0` for `cpu`, `/device:CPU:0` and `/job:localhost/replica:0/task:0/device:CPU:0`."""
    name = str(device).upper().rpartition("DEVICE:")[2].lstrip("/")
    return name if ":" in name else f"{name}:0"


@cache
def dtypes() -> frozenset[str]:
    """Return the dtypes that TensorFlow knows, the same on all devices."""
    return frozenset(name for name in STANDARD | ML_DTYPES if attempt(tf.as_dtype, name))


def _refuse_if_no_values(tensor: Any) -> None:
    if tf.is_symbolic_tensor(tensor):
        raise UnsupportedError("a symbolic tensor has no values yet", "convert outside of tf.function")
