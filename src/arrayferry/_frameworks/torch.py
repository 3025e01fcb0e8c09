"""PyTorch: tensors on the CPU, CUDA, MPS and any other device that torch knows.

* a NumPy array -> `torch.from_numpy` of private memory; on a device, see `_torch_devices.py`
* bfloat16 and float8 -> through an integer of the same width, bit for bit
* requires_grad -> detached; conjugate and negative-bit tensors -> resolved
* sparse, nested, quantized, meta, fake tensors and tensors of dispatching subclasses -> refused
* in inference_mode -> tensors that can be trained on later
* in a forked process -> without torch's threads, which exist only in the parent
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any

from arrayferry._core.dtypes import ML_DTYPES, STANDARD, defaults_with, dtype_name, numpy_dtype
from arrayferry._core.framework import Array, Deferred, Framework, Source, Target
from arrayferry._core.generic import CUDA_VIEWS, WAYS
from arrayferry._core.messages import with_article
from arrayferry._core.ownership import STRIDED
from arrayferry._core.speedups import speedups
from arrayferry._frameworks import _torch_devices as devices
from arrayferry._frameworks._lazy import torch
from arrayferry._frameworks._torch_compile import break_graphs
from arrayferry.errors import DeviceError, SharingError, UnsupportedError

# Whether this process was forked from one that had imported torch. Torch's threads exist only in the parent,
# and work given to them here is never done. See https://github.com/pytorch/pytorch/issues/17199.
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = _forked or "torch" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# To free memory that torch was given takes the GIL, which torch has just given up; a copy beside the array's
# description is freed without it. From so many bytes on, copying takes longer.
_SMALL = 4096


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# Only where it is imported already: an array of another library may be on a GPU without it.
CUDA_VIEWS.append(lambda array: sys.modules["torch"].as_tensor(array, device="cuda"))
WAYS.append(lambda array: sys.modules["torch"].as_tensor(array, device="cuda").cpu().numpy())


class Torch(Framework):
    """Torch's tensors and devices."""

    name, modules, arrays = "torch", ("torch",), ("torch:Tensor",)

    def source(self, cls: type) -> Source:
        """Return how tensors are read: plain ones in C, which torch's `numpy()` refuses if it should."""
        source = Source(
            read=read,
            view=view,
            device_of=lambda tensor: tensor.device,
            on_host=lambda tensor: bool(tensor.is_cpu),
            guard=devices.guard,
            export=export,
            fetch=fetch,
        )
        if cls is not torch.Tensor:
            return source
        _, item, fast_copy, fast_view = _ways()
        return source._replace(item=item, fast_copy=fast_copy, fast_view=fast_view)

    def target(self, device: Any) -> Target:
        """Return how tensors are made on a device: by `torch.from_numpy`, or through pinned memory."""
        break_graphs()
        on_cpu = device is None or device.type == "cpu"
        take = _ways()[0] if on_cpu else partial(upload, device)
        return Target(
            take=take,
            copies=not on_cpu,
            dtypes=partial(dtypes, None if device is None else device.type),
            defaults=lambda: defaults_with(torch.get_default_dtype()),
            as_is=STANDARD & dtypes("cpu") if on_cpu else frozenset(),
            result_type=torch.Tensor if on_cpu else None,
            from_bits=(lambda bits, name: bits.view(getattr(torch, name))) if on_cpu else None,
            share=take if on_cpu else None,
            small=_SMALL if on_cpu and _exchange() is not None else 0,
            needs=STRIDED,
            within=partial(copy_to, device),
            holds=partial(is_on, device),
            alias=lambda array: torch.from_dlpack(array),  # type: ignore[attr-defined]
            can_alias=can_alias,
            # Tensors made in inference mode can never be trained on.
            guard=(torch.is_inference_mode_enabled, partial(torch.inference_mode, False)),
        )

    def find_device(self, spec: Any) -> torch.device | None:
        """Return a `torch.device` that tensors can be made on.

        As in torch, `"cuda"` is whichever CUDA device is the current one when tensors are made.
        """
        if spec is None:
            return None
        if isinstance(spec, (tuple, list)) and any(hasattr(part, "get_coordinate") for part in spec):
            what = "a DeviceMesh and placements are for the rows of a vector environment"
            raise DeviceError(what, "wrap a gymnasium.vector.VectorEnv, or pass the device of this process")
        try:
            device = torch.device(spec)
            torch.empty(0, device=device)
        except Exception as error:  # each backend raises its own kind of error, even AssertionError
            raise self.no_device(spec) from error
        if device.type == "meta":  # which has shapes, but no values
            raise self.no_device(spec)
        return device

    def device_names(self) -> tuple[str, ...]:
        """Return the names of the CPU and the accelerators."""
        names = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        names += ["mps"] if torch.backends.mps.is_available() else []
        other = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else None
        if other is not None and other.type not in ("cuda", "mps"):
            names += [f"{other.type}:{i}" for i in range(torch.accelerator.device_count())]
        return ("cpu", *names)


def _count_modes() -> Any:
    return getattr(torch._C, "_len_torch_dispatch_stack", None)


def _exchange() -> Any:
    """Return DLPack's table of C functions, since torch 2.10; None if it cannot be used.

    It makes real tensors even in modes that replace them, such as FakeTensorMode, so they have to be counted.
    """
    is_usable = speedups is not None and _count_modes() is not None
    return getattr(torch.Tensor, "__dlpack_c_exchange_api__", None) if is_usable else None


@cache
def _ways() -> tuple[Any, Any, Any, Any]:
    """Return functions that make a tensor of an array, read a number, copy and view."""
    if speedups is None:
        return torch.from_numpy, _item, None, None
    ways: tuple[Any, Any, Any, Any] = speedups.arrays_of(
        torch.Tensor,
        _exchange(),
        torch.Tensor.is_neg,
        _count_modes(),
        torch.Tensor.numpy,
        _item,
        torch.from_numpy,
        torch.Tensor.untyped_storage,
        torch.UntypedStorage.data_ptr,
    )
    return ways


# ---- reading ----------------------------------------------------------------------------------------------


def _item(tensor: torch.Tensor) -> Any:
    """Return the number in a 0-d tensor; None if its memory was freed, which torch itself would read."""
    return tensor.tolist() if tensor.untyped_storage().nbytes() else None


def read(tensor: torch.Tensor) -> Array:
    """Return a view of the tensor's memory, or a fresh array where it is lazy or not on the CPU."""
    _refuse_if_no_values(tensor)
    _refuse_dispatching(tensor := tensor.detach())  # in FakeTensorMode, `numpy()` would show garbage
    devices.refuse_capture(tensor.device)
    name = dtype_name(tensor.dtype)
    with _one_thread() if _forked else nullcontext():
        if name == "complex32":  # of which complex64 holds every value
            return tensor.to(torch.complex64).numpy(force=True)
        if name in STANDARD:
            return tensor.numpy(force=True)
        if name not in ML_DTYPES:
            raise UnsupportedError(f"NumPy has no {name}", "call tensor.to() with a dtype that NumPy has")
        bits = tensor.cpu().resolve_neg().view(torch.int16 if tensor.itemsize == 2 else torch.uint8)
        return bits.numpy().view(numpy_dtype(name))


def view(tensor: torch.Tensor) -> Array:
    """Return a view of the tensor's memory."""
    tensor, name = export(tensor), dtype_name(tensor.dtype)
    if not tensor.is_cpu:
        raise SharingError(f"NumPy cannot see the memory of a tensor on {tensor.device}", "pass copy=None")
    if name not in STANDARD | ML_DTYPES:
        raise SharingError(f"NumPy has no {name}", "pass copy=None, which converts it")
    return read(tensor)


def export(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the same memory, without gradient history."""
    _refuse_if_no_values(tensor)
    if tensor.is_conj() or tensor.is_neg():
        what = "the memory of a tensor that is conjugated or negated lazily has other values"
        raise SharingError(what, "pass copy=None")
    return tensor.detach()


# ---- copying ----------------------------------------------------------------------------------------------


def copy_to(device: torch.device | None, tensor: torch.Tensor, dtype: str | None) -> Any:
    """Return a copy on a device, without gradient history."""
    _refuse_if_no_values(tensor)
    new = tensor.dtype if dtype is None else getattr(torch, dtype)
    there = tensor.device if device is None else devices.with_index(device)
    goes_to_cpu = there.type == "cpu"
    with torch.no_grad(), _one_thread() if _forked else nullcontext():
        # A tensor made in inference_mode may be copied outside of it, but not viewed.
        if tensor.is_complex() and not new.is_complex and new != torch.bool:  # torch would warn
            tensor = tensor.detach().clone().real
        if tensor.is_cpu and not goes_to_cpu:
            return upload(there, tensor.detach(), new)
        if goes_to_cpu and not tensor.is_cpu:
            return _download(torch.empty(tensor.shape, dtype=new, device="cpu"), tensor)
        if not goes_to_cpu:
            devices.refuse_capture(there)
        copy = tensor.to(there, new, copy=True, memory_format=torch.contiguous_format)
        copy = copy.resolve_conj().resolve_neg()
        _refuse_dispatching(copy)
        return copy if goes_to_cpu else devices.defer_copy(copy, tensor)


def upload(device: torch.device, values: Any, dtype: torch.dtype | None = None) -> Any:
    """Return a tensor on a device with the values of a NumPy array of any layout, or of another tensor."""
    dtype = getattr(torch, values.dtype.name) if dtype is None else dtype
    result = torch.empty(values.shape, dtype=dtype, device=device)
    _refuse_dispatching(result)  # as it is in FakeTensorMode
    return devices.defer_upload(result, values)


def fetch(tensor: torch.Tensor, memory: Array) -> Any:
    """Copy a tensor on a device to the memory of a NumPy array."""
    _refuse_if_no_values(tensor)
    return _download(torch.from_numpy(memory), tensor)


def _download(host: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor | Deferred:
    _refuse_dispatching(tensor := tensor.detach())  # as it is in FakeTensorMode
    return devices.defer_download(host, tensor.to(host.dtype).resolve_conj().resolve_neg())


def is_on(device: torch.device | None, tensor: torch.Tensor) -> bool:
    """Return whether a tensor is on a device; one without an index is the current one of its type."""
    _refuse_if_no_values(tensor)
    return device is None or devices.with_index(device) == tensor.device


@cache
def can_alias(device_type: int) -> bool:
    """Return whether torch has devices of a type that DLPack knows by this number."""
    if device_type in (2, 10):  # CUDA; ROCm, which torch also calls cuda
        return torch.cuda.is_available() and (torch.version.hip is not None) == (device_type == 10)
    if device_type == 8:
        return torch.backends.mps.is_available()
    return device_type in (1, 12) or (device_type == 14 and torch.xpu.is_available())


# ---- dtypes -----------------------------------------------------------------------------------------------


@cache
def dtypes(device_type: str | None) -> frozenset[str]:
    """Return the dtypes that torch has; on MPS, without float64 and complex128."""
    missing = {"float64", "complex128"} if device_type == "mps" else set()
    return frozenset(name for name in STANDARD | ML_DTYPES if hasattr(torch, name)) - missing


# ---- what is refused --------------------------------------------------------------------------------------


def _refuse_dispatching(tensor: torch.Tensor) -> None:
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        kind = with_article(type(tensor).__name__)
        hint = "convert what it wraps, outside of FakeTensorMode; for a DTensor, to_local() or full_tensor()"
        raise UnsupportedError(f"{kind} has no values: it computes them when it is used", hint)


def _refuse_if_no_values(tensor: torch.Tensor) -> None:
    _refuse_dispatching(tensor)
    if tensor.is_nested:
        raise UnsupportedError("a nested tensor is not a single array", "convert its .unbind()")
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"a tensor of layout {tensor.layout} is not dense", "call .to_dense() first")
    if tensor.is_quantized:
        raise UnsupportedError("a quantized tensor has no plain values", "call .dequantize() first")
    if tensor.is_meta:
        raise UnsupportedError("a meta tensor has a shape but no values", "make it on another device")
    try:
        address, size = tensor.data_ptr(), tensor.untyped_storage().nbytes()
    except RuntimeError as error:
        what = "a tensor inside vmap, grad or another transform has no values of its own"
        raise UnsupportedError(what, "convert outside of the transform") from error
    steps = ((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride()))
    needed = tensor.itemsize * (tensor.storage_offset() + 1 + sum(steps))
    if tensor.numel() and (not address or size < needed):  # reading it would give garbage, or crash
        what = "there are no values behind this tensor: it is inside a transform, or its storage was resized"
        raise UnsupportedError(what, "convert outside of the transform, and before the storage is resized")
