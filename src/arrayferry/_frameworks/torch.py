"""PyTorch: tensors on the CPU, CUDA, MPS, and whatever device torch knows.

* a NumPy array -> `torch.from_numpy` of private memory, moved to the device
* bfloat16 and float8 -> through an integer of the same width, bit for bit
* requires_grad -> detached; conjugate and negative-bit tensors -> resolved
* sparse, nested, quantized, meta, fake tensors and tensors of dispatching subclasses -> refused
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Array, Devices, FastPaths, Framework
from arrayferry._core.ownership import obstacle_to_sharing
from arrayferry._core.speedups import speedups
from arrayferry.errors import DeviceError, SharingError, UnsupportedError

if TYPE_CHECKING:
    import torch

# Whether this process was forked from one that had torch: its threads stayed behind, and work that
# torch gives to them is never done. See https://github.com/pytorch/pytorch/issues/17199.
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = _forked or "torch" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


_AS_IT_IS = nullcontext()


def to_numpy(tensor: torch.Tensor, share: bool) -> Array:
    """A view of the tensor's memory; a fresh array where it is lazy, or not on the CPU."""
    _refuse_what_has_no_memory(tensor)
    if share and (not tensor.is_cpu or tensor.is_conj() or tensor.is_neg()):
        state = f"on {tensor.device}" if not tensor.is_cpu else "conjugated or negated lazily"
        raise SharingError(f"NumPy cannot see the memory of a tensor {state}", "copy=None")
    name = _name(tensor.dtype)
    if name in STANDARD and not _forked:
        return tensor.numpy(force=True)
    with _one_thread() if _forked else _AS_IT_IS:
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        return plain.numpy() if name in STANDARD else _extended_to_numpy(plain, name, share)


@cache
def to_private(cls: type[torch.Tensor]) -> Callable[[torch.Tensor], Array | None] | None:
    """Copy plain tensors in C. Torch's `numpy()` refuses all that it should, except for missing memory."""
    if speedups is None or cls is not sys.modules["torch"].Tensor:
        return None
    copy: Callable[[torch.Tensor], Array | None] = speedups.PrivateCopy(
        cls.numpy, cls.untyped_storage, sys.modules["torch"].UntypedStorage.data_ptr
    ).take
    return copy


def _extended_to_numpy(tensor: torch.Tensor, name: str, share: bool) -> Array:
    """NumPy has these dtypes through ml_dtypes, or not at all."""
    import torch

    with suppress(ImportError):
        import ml_dtypes

        if name in ML_DTYPES:
            bits = torch.int16 if tensor.itemsize == 2 else torch.int8
            return tensor.view(bits).numpy().view(getattr(ml_dtypes, name))
    wider = torch.complex64 if tensor.is_complex() else torch.float32
    if not share and (tensor.is_floating_point() or tensor.is_complex()):
        return tensor.to(wider).numpy()
    raise UnsupportedError(f"NumPy has no {name}", "tensor.to() a dtype that it has")


def from_private(device: torch.device | None) -> Callable[[Array], torch.Tensor] | None:
    """Torch's own call."""
    import torch

    return torch.from_numpy if device is None or device.type == "cpu" else None


@cache
def mode() -> tuple[Callable[[], bool], Callable[[], AbstractContextManager[Any]]]:
    """A tensor made inside inference_mode can never be trained on, not even after it has ended."""
    import torch

    return torch.is_inference_mode_enabled, partial(torch.inference_mode, False)


def from_numpy(array: Array, device: torch.device | None, share: bool) -> torch.Tensor:
    """A tensor on the array's memory, or on the device."""
    if share:
        _refuse_what_cannot_be_aliased(array, device)
    is_on, without = mode()
    if not is_on():
        return _wrap(array, device)
    with without():
        return _wrap(array, device)


def _wrap(array: Array, device: torch.device | None) -> torch.Tensor:
    import torch

    try:
        tensor = torch.from_numpy(array)
    except TypeError:  # a dtype of ml_dtypes
        bits = np.int16 if array.dtype.itemsize == 2 else np.int8
        tensor = torch.from_numpy(array.view(bits)).view(getattr(torch, array.dtype.name))
    return tensor if device is None else tensor.to(device)


def copy_within(
    tensor: torch.Tensor, device: torch.device | None, dtype: str | None, share: bool
) -> torch.Tensor:
    """A clone without history; with `share`, the same memory."""
    import torch

    _refuse_what_has_no_memory(tensor)
    wanted = tensor.dtype if dtype is None else getattr(torch, dtype)
    there = tensor.device if device is None else device
    if share:
        if wanted != tensor.dtype or _numbered(there) != _numbered(tensor.device):
            what = f"{tensor.dtype} on {tensor.device} is not {wanted} on {there}"
            raise SharingError(what, "copy=None, which makes it so")
        return tensor
    with torch.inference_mode(False), torch.no_grad(), _one_thread() if _forked else _AS_IT_IS:
        # A tensor from inside inference_mode may only be copied, not viewed, outside of it.
        moved = tensor.to(there, wanted, copy=True, memory_format=torch.contiguous_format)
        return moved.resolve_conj().resolve_neg()


def from_dlpack(array: Any) -> torch.Tensor:
    """A tensor on the same device memory."""
    import torch

    return torch.from_dlpack(array)  # type: ignore[attr-defined]


def device(spec: Any) -> torch.device | None:
    """A `torch.device` on which tensors can be made."""
    import torch

    if spec is None:
        return None
    try:
        found = torch.device(spec)
        torch.empty(0, device=found)
    except Exception as error:  # each backend has its own way to say no, AssertionError among them
        hint = f"the devices here are: {', '.join(devices())}"
        raise DeviceError(f"torch has no device {str(spec)!r} here", hint) from error
    return found


def devices() -> tuple[str, ...]:
    """The CPU, the accelerators, and `meta`, which has shapes but no values."""
    import torch

    accelerators = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        accelerators.append("mps")
    return ("cpu", *accelerators, "meta")


def dtypes(device: torch.device | None) -> frozenset[str]:
    """All but float64 on MPS."""
    return _dtypes_on("cpu" if device is None else device.type)


@cache
def _dtypes_on(device_type: str) -> frozenset[str]:
    import torch

    missing = {"float64", "complex128"} if device_type == "mps" else set()
    return frozenset(name for name in STANDARD | ML_DTYPES if hasattr(torch, name)) - missing


def default_dtypes(device: Any) -> dict[type, str]:
    """As `torch.asarray`: floats are of torch's default dtype."""
    return _scalars(sys.modules["torch"].get_default_dtype())


@cache
def _scalars(dtype: torch.dtype) -> dict[type, str]:
    default = _name(dtype)
    return {int: "int64", float: default, complex: "complex128" if default == "float64" else "complex64"}


@cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).rpartition(".")[2]


def _numbered(device: torch.device) -> torch.device:
    """`cuda` and `cuda:0` are one device."""
    import torch

    return torch.device(device.type, device.index or 0)


def _refuse_what_has_no_memory(tensor: torch.Tensor) -> None:
    import torch

    if not _is_plain(type(tensor)):
        kind = type(tensor).__name__
        raise UnsupportedError(
            f"a {kind} computes its values when it is used: there is no memory to convert",
            "convert what it wraps; for a DTensor, .full_tensor()",
        )
    if tensor.is_nested:
        raise UnsupportedError("a nested tensor is no single array", "convert its .unbind()")
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"a tensor of layout {tensor.layout} is not dense", "call .to_dense() first")
    if tensor.is_quantized:
        raise UnsupportedError("a quantized tensor has no plain values", "call .dequantize() first")
    if tensor.is_meta:
        raise UnsupportedError("a meta tensor has a shape but no values", "make it on another device")
    try:
        address, held = tensor.data_ptr(), tensor.untyped_storage().nbytes()
    except RuntimeError as error:
        what = "a tensor inside of vmap, grad or another transform has no values of its own"
        raise UnsupportedError(what, "convert outside of the transform") from error
    if tensor.numel() and (not address or held < _extent(tensor)):
        # Reading it would give garbage, or end the process.
        what = "there are no values behind this tensor: it is inside a transform, or its storage was resized"
        raise UnsupportedError(what, "convert outside of the transform, and before the storage is resized")


def _extent(tensor: torch.Tensor) -> int:
    """The bytes of storage that its elements reach to."""
    steps = ((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return int(tensor.itemsize * (tensor.storage_offset() + 1 + sum(steps)))


@cache
def _is_plain(cls: type[torch.Tensor]) -> bool:
    import torch

    return cls.__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def _refuse_what_cannot_be_aliased(array: Array, device: torch.device | None) -> None:
    elsewhere = device is not None and device.type != "cpu"
    if obstacle := f"it is not on {device}" if elsewhere else obstacle_to_sharing(array):
        raise SharingError(f"torch cannot share this memory: {obstacle}", "copy=None")


FRAMEWORK = Framework(
    name="torch",
    modules=("torch",),
    arrays=("torch:Tensor",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=dtypes,
    default_dtypes=default_dtypes,
    devices=Devices(
        find=device,
        available=devices,
        of=lambda tensor: tensor.device,
        on_host=lambda tensor: bool(tensor.is_cpu),
    ),
    copy_within=copy_within,
    from_dlpack=from_dlpack,
    distributions=("torch",),
    _fast=FastPaths(
        from_private=from_private,
        plain_dtypes=lambda device: STANDARD & dtypes(device),
        aliases=True,
        to_private=to_private,
        item=lambda cls: cls.tolist if cls is sys.modules["torch"].Tensor else None,
        mode=mode,
    ),
)
