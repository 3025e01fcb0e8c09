"""Tensors on their way to a device, from one, or between two: one event, transfer or wait for all of a step.

* from a device to itself or another -> copied in the order of the streams; what is read is held until then
* from the host to a device -> written to one pinned buffer, sent in one transfer, and split on the device
* from a device to the host -> sent to pinned memory, waited for once, and copied to memory of its own
* while a CUDA graph is captured -> refused

Nothing here waits for a device except `complete_downloads`, which has to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from typing import Any

import numpy as np

from arrayferry._core.framework import Array, Deferred
from arrayferry._core.holds import hold_sources
from arrayferry._frameworks._lazy import torch
from arrayferry.errors import UnsupportedError

# In pinned memory, tensors begin at multiples of so many bytes.
_ALIGNMENT = 16


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


def synchronize(device: torch.device) -> None:
    """Wait until what is queued on a device's current stream is done."""
    module = module_of(device)
    (module.current_stream(device) if hasattr(module, "current_stream") else module).synchronize()


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


def defer_copy(copy: torch.Tensor, source: torch.Tensor) -> Deferred:
    """Return a copy that is queued on its device, and reads its source until then."""
    return Deferred(copy, hold_sources, (record, copy.device, source))


# ---- from the host to a device ----------------------------------------------------------------------------


def defer_upload(result: torch.Tensor, values: torch.Tensor | Array) -> torch.Tensor | Deferred:
    """Return a new tensor on a device, which gets its values when the walk is over."""
    refuse_capture(result.device)
    return Deferred(result, complete_uploads, (result, values)) if result.numel() else result


def complete_uploads(uploads: list[tuple[torch.Tensor, torch.Tensor | Array]]) -> None:
    """Send all values for a device in one transfer from pinned memory, and split them there."""
    by_device = defaultdict(list)
    for result, values in uploads:
        by_device[result.device].append((result, values))
    for device, parts in by_device.items():
        sizes = [-(-result.numel() * result.itemsize // _ALIGNMENT) * _ALIGNMENT for result, _ in parts]
        is_pinned = can_pin(device.type)
        buffer = torch.empty(sum(sizes), dtype=torch.uint8, device="cpu", pin_memory=is_pinned)
        for (result, values), part in zip(parts, buffer.split(sizes)):
            _write(_as_in(result, part), values)
        sent = buffer if len(parts) == 1 else buffer.to(device, non_blocking=is_pinned)
        for (result, _), part in zip(parts, sent.split(sizes)):
            result.copy_(_as_in(result, part), non_blocking=is_pinned)
        hold_sources([(record, device, buffer)])


def _as_in(tensor: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """Return bytes as a tensor of the dtype and shape of another one."""
    return memory[: tensor.numel() * tensor.itemsize].view(tensor.dtype).view(tensor.shape)


def _write(memory: torch.Tensor, values: torch.Tensor | Array) -> None:
    if isinstance(values, torch.Tensor):
        memory.copy_(values)
    else:  # of any layout, and of dtypes that `from_numpy` lacks
        raw = memory.reshape(-1).view(torch.uint8).numpy()
        np.copyto(raw.view(values.dtype.newbyteorder("=")).reshape(values.shape), values)


# ---- from a device to the host ----------------------------------------------------------------------------


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
    return Deferred(host, complete_downloads, (host, pinned, source))


def complete_downloads(downloads: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> None:
    """Wait once for each device, and copy what has arrived out of pinned memory."""
    for device in {source.device for _, _, source in downloads}:
        synchronize(device)
    for host, pinned, _ in downloads:
        host.copy_(pinned)
