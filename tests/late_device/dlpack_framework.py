"""A framework made up for the tests, whose arrays are on the late device, on a stream of its own.

Its memory is exported by DLPack, by hand. It records what a consumer asks for, and when it gives memory back.
It frees memory in the order of its own stream, as XLA and CuPy do.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar

import numpy as np

from arrayferry import Framework, Source, Target
from arrayferry._core import holds
from arrayferry._core.framework import Deferred
from late_device import device as late

_EXPORTED = {}  # by address: what must live until its deleter is called


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(address):
    _, _, record, *_ = _EXPORTED.pop(address)
    record["pending at its deleter"] = sum(late.pending(*stream) for stream in late.streams())


class Memory:
    """Bytes on the late device, freed in the order of a stream when nobody refers to them any more."""

    def __init__(self, device, stream, size):
        self.size, self.address = size, late.library().late_allocate(device, stream, size)

    def __del__(self):
        late.library().late_free(self.address)


class ToyArray:
    """A row of bytes. Work on it is queued on the stream of its device.

    Args:
        values: bytes to write there; or their number.
        device: the number of the device.
    """

    dtype = np.dtype("uint8")
    streams: ClassVar[dict[int, int]] = {}  # of each device, while a test runs
    records: ClassVar[list[dict]] = []  # what was asked of `__dlpack__`, and when the memory was given back

    def __init__(self, values, device=0):
        size = values if isinstance(values, int) else len(values)
        self.device, self.shape, self.memory = device, (size,), Memory(device, self.stream_of(device), size)
        if not isinstance(values, int):
            self.write(values)

    @classmethod
    def stream_of(cls, device):
        """Return the number of the framework's stream on a device."""
        if device not in cls.streams:
            cls.streams[device] = late.library().late_new_stream(device)
        return cls.streams[device]

    @property
    def stream(self):
        """The number of the stream on its device."""
        return self.stream_of(self.device)

    def write(self, values):
        """Write bytes, late."""
        late.library().late_write(self.device, self.stream, self.memory.address, bytes(values), len(values))

    def copy(self):
        """Return a copy, made late."""
        copy = ToyArray(self.memory.size, self.device)
        late.library().late_copy(
            self.device, self.stream, copy.memory.address, self.memory.address, self.memory.size
        )
        return copy

    def peek(self):
        """Return the bytes that are there at this moment."""
        values = np.empty(self.shape, np.uint8)
        late.library().late_peek(self.memory.address, values.ctypes.data, values.nbytes)
        return values.tolist()

    def __dlpack_device__(self):
        return late.EXTERNAL, self.device

    def __dlpack__(self, *, stream=None, **options):
        record = {"stream": stream, **options}
        self.records.append(record)
        if stream != -1:
            late.library().late_order(self.device, 0 if stream is None else stream, self.stream)
        shape, strides = (ctypes.c_int64 * 1)(*self.shape), (ctypes.c_int64 * 1)(1)
        managed = _Managed(1, 0, None, ctypes.cast(_delete, ctypes.c_void_p), 0)
        managed.tensor = _Tensor(
            self.memory.address, late.EXTERNAL, self.device, 1, 1, 8, 1, shape, strides, 0
        )
        _EXPORTED[ctypes.addressof(managed)] = managed, self.memory, record, shape, strides
        return _new_capsule(ctypes.addressof(managed), b"dltensor_versioned", None)


class _Alias(ToyArray):
    """Memory of a tensor, which it keeps alive; the stream waits for what torch has to do by now."""

    def __init__(self, tensor):
        self.device, self.shape, self.dtype = tensor.device.index, tuple(tensor.shape), tensor.dtype
        tensor.__dlpack__(stream=self.stream_of(self.device), max_version=(1, 0))
        self.memory = type(
            "Borrowed", (), {"address": tensor.data_ptr(), "size": tensor.nbytes, "of": tensor}
        )


def _copy_within(array, dtype):
    copy = array.copy()
    return Deferred(copy, hold_sources, (array, copy))


def hold_sources(tasks):
    """Hold what copies read until their streams are empty, as arrays of JAX are held until they are ready."""
    streams = {(copy.device, copy.stream) for _, copy in tasks}
    holds.hold(lambda: not any(late.pending(*stream) for stream in streams), lambda: None, tasks)


class Toy(Framework):
    """The framework.

    Args:
        immutable: whether its arrays never change, as JAX's.
        copies: whether it says how an array is copied in the order of its stream.
        dtypes: of what its arrays may be views.
    """

    name, modules, arrays = (
        "toy",
        ("late_device.dlpack_framework",),
        ("late_device.dlpack_framework:ToyArray", "late_device.toy:_Alias"),
    )

    def __init__(self, immutable, copies=True, dtypes=("uint8",)):
        self.immutable, self._copies, self._dtypes = immutable, copies, frozenset(dtypes)

    def source(self, cls):
        """Return how its arrays are read: not on the host."""
        return Source(read=_refuse, on_host=lambda array: False)

    def target(self, device):
        """Return how its arrays are made: from others on the same device."""
        return Target(
            take=_refuse,
            dtypes=lambda: self._dtypes,
            alias=_Alias,
            within=_copy_within if self._copies else None,
            can_alias=lambda device_type: device_type == late.EXTERNAL,
        )


def _refuse(array):
    raise AssertionError("it went through the host")
