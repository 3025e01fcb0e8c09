"""PyTorch: tensors on the CPU, CUDA, MPS and any other device that torch knows.

* a NumPy array -> `torch.from_numpy` of private memory, moved to the device
* bfloat16 and float8 -> through an integer of the same width, bit for bit
* requires_grad -> detached; conjugate and negative-bit tensors -> resolved
* a batch of a vector environment -> for a `DeviceMesh`, a DTensor of the rows of all processes
* sparse, nested, quantized, meta, fake tensors and tensors of dispatching subclasses -> refused
* in a forked process -> without torch's threads, which exist only in the parent
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Array, Batches, Devices, FastPaths, Framework, Mode
from arrayferry._core.messages import with_article
from arrayferry._core.ownership import obstacle_to_sharing
from arrayferry._core.speedups import speedups
from arrayferry._core.type_cache import TypeCache
from arrayferry._frameworks._torch_rows import Rows, as_rows
from arrayferry.errors import DeviceError, SharingError, UnsupportedError

if TYPE_CHECKING:
    import torch

__all__ = ["FRAMEWORK"]

# Whether this process was forked from one that had imported torch. Torch's threads exist only in the parent,
# and work given to them here is never done. See https://github.com/pytorch/pytorch/issues/17199.
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


_ALL_THREADS = nullcontext()


def to_numpy(tensor: torch.Tensor, share: bool) -> Array:
    """Return a view of the tensor's memory, or a fresh array where it is lazy or not on the CPU."""
    _refuse_if_no_values(tensor)
    if share and (not tensor.is_cpu or tensor.is_conj() or tensor.is_neg()):
        state = f"on {tensor.device}" if not tensor.is_cpu else "conjugated or negated lazily"
        raise SharingError(f"NumPy cannot see the memory of a tensor {state}", "pass copy=None")
    name = _dtype_name(tensor.dtype)
    if name in STANDARD and not _forked:
        return tensor.numpy(force=True)
    with _one_thread() if _forked else _ALL_THREADS:
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        return plain.numpy() if name in STANDARD else _extended_to_numpy(plain, name, share)


def _extended_to_numpy(tensor: torch.Tensor, name: str, share: bool) -> Array:
    """Return an array of a dtype that NumPy does not have itself: from ml_dtypes, or else a wider one."""
    import torch

    with suppress(ImportError):
        import ml_dtypes

        if name in ML_DTYPES:
            bits = torch.int16 if tensor.itemsize == 2 else torch.int8
            return tensor.view(bits).numpy().view(getattr(ml_dtypes, name))
    wider = torch.complex64 if tensor.is_complex() else torch.float32
    if not share and (tensor.is_floating_point() or tensor.is_complex()):
        return tensor.to(wider).numpy()
    raise UnsupportedError(f"NumPy has no {name}", "call tensor.to() with a dtype that NumPy has")


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).rpartition(".")[2]


def from_numpy(array: Array, device: torch.device | Rows | None, share: bool) -> torch.Tensor:
    """Return a tensor on the array's memory, moved to the device if there is one."""
    if isinstance(device, Rows):
        return device.join(from_numpy(array, device.device, share))
    if share:
        _refuse_if_not_shareable(array, device)
    is_on, without = mode()
    if not is_on():
        return _as_tensor(array, device)
    with without():
        return _as_tensor(array, device)


def _as_tensor(array: Array, device: torch.device | None) -> torch.Tensor:
    import torch

    try:
        tensor = torch.from_numpy(array)
    except TypeError:  # a dtype of ml_dtypes
        bits = np.int16 if array.dtype.itemsize == 2 else np.int8
        tensor = torch.from_numpy(array.view(bits)).view(getattr(torch, array.dtype.name))
    return _made(tensor if device is None else tensor.to(device))


def copy_within(
    tensor: torch.Tensor, device: torch.device | Rows | None, dtype: str | None, share: bool
) -> torch.Tensor:
    """Return a copy without gradient history; with `share`, the tensor itself."""
    import torch

    if isinstance(device, Rows):
        return device.join(copy_within(device.read(tensor), device.device, dtype, share))
    _refuse_if_no_values(tensor)
    wanted = tensor.dtype if dtype is None else getattr(torch, dtype)
    there = tensor.device if device is None else device
    if share:
        if wanted != tensor.dtype or _with_index(there) != _with_index(tensor.device):
            what = f"{tensor.dtype} on {tensor.device} is not {wanted} on {there}"
            raise SharingError(what, "pass copy=None, which converts it")
        return tensor
    with torch.inference_mode(False), torch.no_grad(), _one_thread() if _forked else _ALL_THREADS:
        # A tensor made in inference_mode may be copied outside of it, but not viewed.
        if tensor.is_complex() and not wanted.is_complex and wanted != torch.bool:  # torch would warn
            tensor = tensor.detach().clone().real
        moved = tensor.to(there, wanted, copy=True, memory_format=torch.contiguous_format)
        copy = _made(moved.resolve_conj().resolve_neg())
        _wait_for(there)
        return copy


def _wait_for(device: torch.device) -> None:
    """Wait until an accelerator is done: the memory that it reads may be gone after this call."""
    import torch

    if device.type == "cpu":
        return
    module = getattr(torch, device.type)
    if hasattr(module, "current_stream"):
        module.current_stream(device).synchronize()
    else:
        module.synchronize()


def _made(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that torch has made; raise if a mode is on in which it has no values."""
    if not _is_plain[type(tensor)]:
        what = f"torch makes {with_article(type(tensor).__name__)} here, which has no values"
        raise UnsupportedError(what, "convert outside of FakeTensorMode and other dispatch modes")
    return tensor


def _with_index(device: torch.device) -> torch.device:
    """Return the device with its index: without one, it is the current device of its type."""
    import torch

    index: int | None = 0 if device.type == "cpu" else device.index
    if index is None:
        module: Any = getattr(torch, device.type, None)
        index = module.current_device() if hasattr(module, "current_device") else 0
    return torch.device(device.type, index)


def from_dlpack(array: Any) -> torch.Tensor:
    """Return a tensor on the same device memory."""
    import torch

    if not hasattr(array, "__dlpack__"):
        return torch.as_tensor(array, device="cuda")  # which reads __cuda_array_interface__
    return torch.from_dlpack(array)  # type: ignore[attr-defined]


@cache
def reads(device_type: int) -> bool:
    """Return whether torch has devices of a type that DLPack knows by this number."""
    import torch

    if device_type in (2, 10):  # CUDA; ROCm, which torch also calls cuda
        return torch.cuda.is_available() and (torch.version.hip is not None) == (device_type == 10)
    if device_type == 8:
        return torch.backends.mps.is_available()
    return device_type in (1, 12) or (device_type == 14 and torch.xpu.is_available())


def find_device(spec: Any) -> torch.device | Rows | None:
    """Return a `torch.device` that tensors can be made on.

    As in torch, `"cuda"` is whichever CUDA device is the current one when tensors are made.
    """
    import torch

    if spec is None or isinstance(spec, Rows):
        return spec
    if as_rows(spec, 1) is not None:
        what = "a DeviceMesh and placements are for the rows of a vector environment"
        raise DeviceError(what, "wrap a gymnasium.vector.VectorEnv, or pass the device of this process")
    try:
        found = torch.device(spec)
        torch.empty(0, device=found)
    except Exception as error:  # each backend raises its own kind of error, even AssertionError
        hint = f"the devices here are: {', '.join(available_devices())}"
        raise DeviceError(f"torch has no device {str(spec)!r} here", hint) from error
    if found.type == "meta":
        hint = f"the devices here are: {', '.join(available_devices())}"
        raise DeviceError("torch's device 'meta' has shapes, but no values", hint)
    return found


def available_devices() -> tuple[str, ...]:
    """Return the names of the CPU and the accelerators."""
    import torch

    accelerators = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        accelerators.append("mps")
    return ("cpu", *accelerators)


def split_rows(spec: Any, count: int) -> tuple[Any, Any]:
    """Return the device for batches of `count` rows, and the device for everything else."""
    rows = as_rows(spec, count)
    return (spec, spec) if rows is None else (rows, rows.device)


def rows_here(tensor: Any, device: Any) -> Any:
    """Return this process's rows of a DTensor that has those of all processes."""
    return device.read(tensor) if isinstance(device, Rows) else tensor


@cache
def dtypes(device: torch.device | Rows | None) -> frozenset[str]:
    """Return the dtypes that torch has; on MPS, without float64 and complex128."""
    import torch

    if isinstance(device, Rows):
        return dtypes(device.device)
    missing = {"float64", "complex128"} if device is not None and device.type == "mps" else set()
    return frozenset(name for name in STANDARD | ML_DTYPES if hasattr(torch, name)) - missing


def default_dtypes(device: Any) -> dict[type, str]:
    """Return the dtypes that `torch.asarray` gives to numbers: floats get torch's default dtype."""
    return _default_dtypes(sys.modules["torch"].get_default_dtype())


@cache
def _default_dtypes(dtype: torch.dtype) -> dict[type, str]:
    default = _dtype_name(dtype)
    return {int: "int64", float: default, complex: "complex128" if default == "float64" else "complex64"}


def from_private(device: torch.device | Rows | None) -> Callable[[Array], torch.Tensor] | None:
    """Return `torch.from_numpy` for the CPU."""
    import torch

    if isinstance(device, Rows):
        return None
    return torch.from_numpy if device is None or device.type == "cpu" else None


def _reader(cls: type[torch.Tensor]) -> Any:
    """Return a reader of plain tensors in C, or None.

    Torch's `numpy()` refuses every tensor that it should, except one whose memory is missing: the C code
    checks for that.
    """
    if speedups is None or cls is not sys.modules["torch"].Tensor:
        return None
    storage = sys.modules["torch"].UntypedStorage
    return speedups.ArrayReader(cls.numpy, cls.untyped_storage, storage.data_ptr)


def to_private(cls: type[torch.Tensor]) -> Callable[[torch.Tensor], Array | None] | None:
    """Return a function in C that copies plain tensors, or None."""
    return None if (reader := _reader(cls)) is None else reader.copy


def to_view(cls: type[torch.Tensor]) -> Callable[[torch.Tensor], Array | None] | None:
    """Return a function in C that shows NumPy the memory of plain tensors, or None."""
    return None if (reader := _reader(cls)) is None else reader.view


@cache
def mode() -> Mode:
    """Return how to detect and how to leave inference_mode: tensors made in it can never be trained on."""
    import torch

    return torch.is_inference_mode_enabled, partial(torch.inference_mode, False)


def _refuse_if_no_values(tensor: torch.Tensor) -> None:
    import torch

    if not _is_plain[type(tensor)]:
        kind = with_article(type(tensor).__name__)
        raise UnsupportedError(
            f"{kind} computes its values when it is used: there is no memory to convert",
            "convert what it wraps; for a DTensor, to_local(), or full_tensor() in all processes",
        )
    if tensor.is_nested:
        raise UnsupportedError("a nested tensor is not a single array", "convert its .unbind()")
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"a tensor of layout {tensor.layout} is not dense", "call .to_dense() first")
    if tensor.is_quantized:
        raise UnsupportedError("a quantized tensor has no plain values", "call .dequantize() first")
    if tensor.is_meta:
        raise UnsupportedError("a meta tensor has a shape but no values", "make it on another device")
    try:
        address, held = tensor.data_ptr(), tensor.untyped_storage().nbytes()
    except RuntimeError as error:
        what = "a tensor inside vmap, grad or another transform has no values of its own"
        raise UnsupportedError(what, "convert outside of the transform") from error
    if tensor.numel() and (not address or held < _bytes_needed(tensor)):
        # Reading it would give garbage, or crash the process.
        what = "there are no values behind this tensor: it is inside a transform, or its storage was resized"
        raise UnsupportedError(what, "convert outside of the transform, and before the storage is resized")


def _has_no_dispatch(cls: Any) -> bool:
    import torch

    return cls.__torch_dispatch__ is torch.Tensor.__torch_dispatch__


_is_plain = TypeCache(_has_no_dispatch)


def _bytes_needed(tensor: torch.Tensor) -> int:
    """Return how many bytes the storage must have to hold the tensor's last element."""
    steps = ((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return int(tensor.itemsize * (tensor.storage_offset() + 1 + sum(steps)))


def _refuse_if_not_shareable(array: Array, device: torch.device | None) -> None:
    elsewhere = device is not None and device.type != "cpu"
    if obstacle := f"it is not on {device}" if elsewhere else obstacle_to_sharing(array):
        raise SharingError(f"torch cannot share this memory: {obstacle}", "pass copy=None")


FRAMEWORK = Framework(
    name="torch",
    modules=("torch",),
    arrays=("torch:Tensor",),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=dtypes,
    default_dtypes=default_dtypes,
    devices=Devices(
        find=find_device,
        name=lambda device: device if isinstance(device, Rows) else str(device),  # torch can pickle a mesh
        available=available_devices,
        of=lambda tensor: tensor.device,
        on_host=lambda tensor: bool(tensor.is_cpu),
        reads=reads,
        current=lambda tensor: sys.modules["torch"].cuda.device_of(tensor),  # torch exports from no other
    ),
    copy_within=copy_within,
    from_dlpack=from_dlpack,
    distributions=("torch",),
    _fast=FastPaths(
        from_private=from_private,
        plain_dtypes=lambda device: STANDARD & dtypes(device),
        makes=lambda: sys.modules["torch"].Tensor,
        aliases=True,
        to_private=to_private,
        to_view=to_view,
        item=lambda cls: cls.tolist if cls is sys.modules["torch"].Tensor else None,
        mode=mode,
    ),
    _batches=Batches(split=split_rows, rows_here=rows_here),
)
