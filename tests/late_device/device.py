"""Build the late device, register it with torch, and control it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

HERE = Path(__file__).resolve().parent

# The headers of torch change from version to version.
TORCH = "2.13"

# DLPack's number for a device that it has no other number for.
EXTERNAL = 12

_library: ctypes.CDLL | None = None


def why_not() -> str | None:
    """Return why the late device cannot be built here, or None."""
    if not torch.__version__.startswith(f"{TORCH}."):
        return f"the late device is written for torch {TORCH}, this is {torch.__version__}"
    if os.name != "posix" or shutil.which("g++") is None:
        return "the late device needs g++"
    return None


@cache
def build() -> Path:
    """Compile the backend, once for each version of it and of torch."""
    source, root = HERE / "late.cpp", Path(torch.__file__).parent
    digest = hashlib.sha256(source.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    target = Path(tempfile.gettempdir()) / f"arrayferry-late-{os.getuid()}" / f"late-{digest}.so"
    if not target.exists():
        target.parent.mkdir(mode=0o700, exist_ok=True)
        unfinished = target.with_suffix(f".{os.getpid()}")
        paths = [f"-I{root / 'include'}", f"-L{root / 'lib'}"]
        command = ["g++", "-O1", "-std=c++20", "-shared", "-fPIC", "-w", *paths, str(source)]
        subprocess.run([*command, "-o", str(unfinished), "-lc10", "-ltorch_cpu"], check=True)
        unfinished.rename(target)
    return target


def library() -> ctypes.CDLL:
    """Return the backend; the first call registers it."""
    global _library
    if _library is None:
        _library = ctypes.CDLL(str(build()))
        for name, result, *arguments in _SIGNATURES:
            function = getattr(_library, name)
            function.restype, function.argtypes = result, arguments
        torch.utils.rename_privateuse1_backend("late")
        _library.late_register()
        torch._register_device_module("late", _module())
        _imitate_cuda()
    return _library


_I, _L, _P, _N = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t

_SIGNATURES = [
    ("late_register", None),
    ("late_run", _L, _I, _I, _L),
    ("late_pending", _L, _I, _I),
    ("late_streams", _I, _I),
    ("late_new_stream", _I, _I),
    ("late_count", _L, ctypes.c_char_p),
    ("late_faults", ctypes.c_char_p),
    ("late_reset", None),
    ("late_limit_allocations", None, _L),
    ("late_set_lost", None, _I),
    ("late_set_capturing", None, _I),
    ("late_allocate", _P, _I, _I, _N),
    ("late_free", None, _P),
    ("late_write", None, _I, _I, _P, _P, _N),
    ("late_copy", None, _I, _I, _P, _P, _N),
    ("late_order", None, _I, _I, _I),
    ("late_peek", None, _P, _P, _N),
]


def _module() -> ModuleType:
    """Return what torch knows as `torch.late`, with the names that `torch.cuda` has."""
    accelerator, module = torch.accelerator, ModuleType("torch.late")
    module.is_available = lambda: True
    module.device_count = lambda: 2
    module.current_device = accelerator.current_device_index
    module.set_device = accelerator.set_device_index
    module.device = lambda device: accelerator.device_index(torch.device(device).index)
    module.current_stream = lambda device=None: accelerator.current_stream(device)
    module.synchronize = lambda device=None: accelerator.synchronize(device)
    module.is_current_stream_capturing = lambda: accelerator.current_stream().is_capturing()
    module.Stream, module.Event = torch.Stream, torch.Event
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_amp_supported_dtype = lambda: [torch.float32]
    return module


def _imitate_cuda() -> None:
    """Let torch export and import tensors on the late device as it does on CUDA: in the order of streams."""
    export, device_of, take = torch.Tensor.__dlpack__, torch.Tensor.__dlpack_device__, torch.from_dlpack

    def __dlpack_device__(self):
        return (EXTERNAL, self.device.index) if self.device.type == "late" else device_of(self)

    def __dlpack__(self, *, stream=-1, **options):
        if self.device.type == "late":
            if self.device.index != torch.accelerator.current_device_index():
                raise BufferError("Can't export tensors on a different device index")
            current = torch.accelerator.current_stream().stream_id
            if stream not in (-1, current):
                library().late_order(self.device.index, 0 if stream is None else stream, current)
            stream = -1
        return export(self, stream=stream, **options)

    def from_dlpack(array, **options):
        kind, index = array.__dlpack_device__() if hasattr(array, "__dlpack_device__") else (1, 0)
        if kind != EXTERNAL:
            return take(array, **options)
        stream = torch.accelerator.current_stream(torch.device("late", index)).stream_id
        return take(array.__dlpack__(stream=stream, max_version=(1, 0)), **options)

    torch.Tensor.__dlpack_device__, torch.Tensor.__dlpack__ = __dlpack_device__, __dlpack__
    torch.from_dlpack = from_dlpack


def counts() -> Counter[str]:
    """Return how often the host waited, and what was transferred, since `reset`."""
    names = [
        "waits",
        "waits:copy",
        "waits:stream",
        "waits:event",
        "waits:device",
        "faults",
        "kernels",
        "events",
    ]
    names += ["host to device", "device to host", "device to device", "cpu fallbacks"]
    names += ["allocations", "pinned allocations"]
    return Counter({name: library().late_count(name.encode()) for name in names})


@contextmanager
def counting():
    """Give a counter that has, after the block, what happened in it."""
    before, during = counts(), Counter()
    yield during
    during.update(counts())
    during.subtract(before)


def streams() -> list[tuple[int, int]]:
    """Return the device and the number of each stream."""
    return [(device, stream) for device in range(2) for stream in range(library().late_streams(device))]


def run(device: int = 0, stream: int = 0, most: int = 1 << 40) -> int:
    """Run so many tasks of a stream, or fewer if it is empty or waits for another one; return how many."""
    return library().late_run(device, stream, most)


def run_all(*, but: tuple[tuple[int, int], ...] = ()) -> int:
    """Run all streams except some as far as they get; return how many tasks that were."""
    total = 0
    while done := sum(run(*stream) for stream in streams() if stream not in but):
        total += done
    return total


def pending(device: int = 0, stream: int = 0) -> int:
    """Return how many tasks a stream has to run."""
    return library().late_pending(device, stream)


def faults() -> str:
    """Return what went wrong on the device, one line each."""
    return library().late_faults().decode()


def peek(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values that a contiguous tensor has at this moment, without a wait."""
    values = torch.empty(tensor.shape, dtype=tensor.dtype)
    if tensor.numel():
        library().late_peek(tensor.data_ptr(), values.data_ptr(), values.nbytes)
    return values


def reset() -> None:
    """Run all that is left, and forget all counts and faults."""
    library().late_reset()
    run_all()
    library().late_reset()
