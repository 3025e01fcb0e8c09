"""Tensors on their way to a device, from one, or between two: one event, transfer or wait for all of a step.

* from a device to itself or another -> copied in the order of the streams; what is read is held until then
* from the host to a device -> written to one pinned buffer, sent in one transfer, and split on the device
* from a device to the host -> sent to pinned memory, waited for once, and copied to memory of its own
* while a CUDA graph is captured -> refused

Nothing here waits for a device except `complete_downloads`, which has to.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from arrayferry._core.framework import Array, Deferred
from arrayferry._core.holds import hold_sources
from arrayferry._frameworks._lazy import torch
from arrayferry.errors import UnsupportedError

# Pinned memory is taken in pieces of at least this size; in a buffer, tensors begin at multiples of 16 bytes.
_FEWEST_BYTES, _ALIGNMENT = 1 << 16, 16


def module_of(device: torch.device) -> Any:
    """Return torch's module for the devices of a type, such as `torch.cuda`."""
    return getattr(torch, device.type)


def with_index(device: torch.device) -> torch.device:
    """Return a device with its number; without one, it is the current device of its type."""
    index: int | None = device.index  # torch's annotations leave None out
    if index is not None or device.type == "cpu":
        return device
    current_device = getattr(module_of(device), "current_device", lambda: 0)  # of MPS, there is one
    return torch.device(device.type, current_device())


def guard(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """Return a context in which a tensor's device is the current one: torch exports from no other."""
    refuse_capture(tensor.device)
    enter = None if tensor.is_cpu else getattr(module_of(tensor.device), "device", None)
    return nullcontext() if enter is None else enter(tensor.device)


def synchronize(tensor: torch.Tensor) -> None:
    """Wait until a tensor is complete."""
    if not tensor.is_cpu:
        module = module_of(tensor.device)
        in_order = hasattr(module, "current_stream")
        (module.current_stream(tensor.device) if in_order else module).synchronize()


def refuse_capture(device: torch.device) -> None:
    """Raise while a CUDA graph is being captured: a replay would not convert anything."""
    is_capturing = getattr(module_of(device), "is_current_stream_capturing", None)
    if is_capturing is not None and is_capturing():
        what = f"a graph is being captured on {device}: replaying it would write the old arrays again"
        raise UnsupportedError(what, "step the environment outside of the capture; see the page Devices")


def record(device: torch.device) -> tuple[Callable[[], bool], Callable[[], Any]]:
    """Record an event on a device's current stream; return whether it has passed, and how to wait for it."""
    module = module_of(device)
    if not hasattr(module, "current_stream"):  # of MPS, which has one stream, and frees memory in its order
        return lambda: True, module.synchronize
    event = module.current_stream(device).record_event()
    return event.query, event.synchronize


# ---- between devices --------------------------------------------------------------------------------------


def defer_copy(copy: torch.Tensor, source: torch.Tensor) -> Deferred:
    """Return a copy that is queued on its device, and reads its source until then."""
    return Deferred(copy, hold_sources, (record, copy.device, source))


# ---- from the host to a device ----------------------------------------------------------------------------


class _Upload(NamedTuple):
    tensor: torch.Tensor
    staging: Staging
    buffer: torch.Tensor
    start: int
    size: int

    def read(self, buffer: torch.Tensor, start: int) -> torch.Tensor:
        """Return the part of a buffer that has the values, as a tensor of the same dtype and shape."""
        part = buffer[self.start - start : self.start - start + self.size]
        return part.view(self.tensor.dtype).view(self.tensor.shape)


class Staging(threading.local):
    """Pinned memory for what goes to a device, for each thread its own.

    A buffer is used for one walk. Torch gets it back when its event has passed, and gives it out again.
    """

    def __init__(self) -> None:
        self._buffer: torch.Tensor | None = None
        self._used = self._size = 0

    def defer_upload(self, tensor: torch.Tensor, values: torch.Tensor | Array) -> torch.Tensor | Deferred:
        """Return a new tensor on a device, after copying its values to pinned memory."""
        refuse_capture(tensor.device)
        size = tensor.numel() * tensor.itemsize
        if not size:
            return tensor
        start = -(-self._used // _ALIGNMENT) * _ALIGNMENT
        if self._buffer is None or start + size > self._buffer.numel():
            start, self._size = 0, max(size, self._size, _FEWEST_BYTES)
            pins = can_pin(tensor.device.type)
            self._buffer = torch.empty(self._size, dtype=torch.uint8, device="cpu", pin_memory=pins)
        self._used = start + size
        upload = _Upload(tensor, self, self._buffer, start, size)
        if isinstance(values, torch.Tensor):
            upload.read(self._buffer, 0).copy_(values)
        else:  # of any layout, and of dtypes that `from_numpy` lacks
            bytes_there = self._buffer[start : self._used].numpy()
            np.copyto(bytes_there.view(values.dtype.newbyteorder("=")).reshape(values.shape), values)
        return Deferred(tensor, complete_uploads, upload)

    def finish(self, sent: int) -> None:
        """Use another buffer from here on, with room for what was sent this time."""
        self._buffer, self._used = None, 0
        self._size = max(2 * _ALIGNMENT + sent, self._size // 2)


def complete_uploads(uploads: list[_Upload]) -> None:
    """Send what is in each pinned buffer in one transfer, and split it on the device."""
    buffers = defaultdict(list)
    for upload in uploads:
        buffers[upload.tensor.device, id(upload.buffer)].append(upload)
    for (device, _), parts in buffers.items():
        buffer, start, is_pinned = parts[0].buffer, parts[0].start, can_pin(device.type)
        if len(parts) == 1:
            parts[0].tensor.copy_(parts[0].read(buffer, 0), non_blocking=is_pinned)
        else:
            arrived = buffer[start : parts[-1].start + parts[-1].size].to(device, non_blocking=is_pinned)
            for upload in parts:
                upload.tensor.copy_(upload.read(arrived, start))
        hold_sources([(record, device, buffer)])
    for staging in {upload.staging for upload in uploads}:
        staging.finish(sum(upload.size + _ALIGNMENT for upload in uploads))


# ---- from a device to the host ----------------------------------------------------------------------------


class _Download(NamedTuple):
    host: torch.Tensor
    pinned: torch.Tensor
    source: torch.Tensor


@cache
def can_pin(device_type: str) -> bool:
    """Return whether torch pins memory for the devices of a type; on MPS, which shares it, it does not."""
    with suppress(RuntimeError):  # of versions that pin it for CUDA only
        return device_type != "mps" and torch.empty(1, device="cpu", pin_memory=True).is_pinned()
    return False


def defer_download(host: torch.Tensor, source: torch.Tensor) -> torch.Tensor | Deferred:
    """Return a new tensor on the host, to which one of the same dtype on a device is copied."""
    refuse_capture(source.device)
    if not can_pin(source.device.type) or not source.numel():
        return host.copy_(source)
    pinned = torch.empty(source.shape, dtype=source.dtype, device="cpu", pin_memory=True)
    pinned.copy_(source, non_blocking=True)
    return Deferred(host, complete_downloads, _Download(host, pinned, source))


def complete_downloads(downloads: list[_Download]) -> None:
    """Wait once for each device, and copy what has arrived out of pinned memory."""
    last = {download.source.device: download.source for download in downloads}
    for source in last.values():
        synchronize(source)
    for host, pinned, _ in downloads:
        host.copy_(pinned)
