"""What `arrayferry doctor` says of torch and JAX in one process: who sees which devices, and what to set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from arrayferry._core.registry import find_framework


class Accelerators(NamedTuple):
    """The accelerators of torch and JAX, their versions of CUDA, and torch's of cuDNN; empty for none."""

    torch: Sequence[str] = ()
    jax: Sequence[str] = ()
    torch_cuda: str = ""
    jax_cuda: str = ""
    cudnn: str = ""


def look() -> Accelerators:
    """Ask both frameworks."""
    import torch

    theirs, ours = map(_accelerators_of, ("torch", "jax"))
    plugins = [version for version in ("12", "13") if find_spec(f"jax_cuda{version}_plugin")]
    cudnn = torch.backends.cudnn.version() if theirs else None
    return Accelerators(theirs, ours, torch.version.cuda or "", ", ".join(plugins), str(cudnn or ""))


def _accelerators_of(name: str) -> list[str]:
    return [device for device in find_framework(name).device_names() if not device.startswith("cpu")]


def lines(found: Accelerators, environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield what there is, and what to set before which import."""
    both = ("torch", found.torch, found.torch_cuda, found.cudnn), ("JAX", found.jax, found.jax_cuda, "")
    for name, devices, cuda, cudnn in both:
        parts = [", ".join(devices) or "no accelerator"]
        parts += [f"built for CUDA {cuda}"] if cuda else []
        parts += [f"cuDNN {cudnn}"] if cudnn else []
        yield f"{name}: {', '.join(parts)}"
    yield from advice(found, environ)


def advice(found: Accelerators, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what to set, and before which import."""
    if bool(found.torch) != bool(found.jax):
        has, lacks = ("torch", "JAX") if found.torch else ("JAX", "torch")
        visible = environ.get("CUDA_VISIBLE_DEVICES")
        variable = "" if visible is None else f"; CUDA_VISIBLE_DEVICES={visible!r}"
        yield f"Only {has} sees an accelerator: install a build of {lacks} for it{variable}."
    elif len(found.torch) != len(found.jax):
        yield "They see different devices: set CUDA_VISIBLE_DEVICES for both, before either is imported."
    is_platform = environ.get("XLA_PYTHON_CLIENT_ALLOCATOR") == "platform"
    is_off = environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") in ("false", "False", "0")
    if found.torch and found.jax and not (is_platform or is_off):
        old = environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION")
        share = float(environ.get("XLA_CLIENT_MEM_FRACTION") or old or ".75")
        what = f"JAX takes {share:.0%} of a GPU's memory when it starts, and leaves torch the rest"
        yield f"{what}: before importing jax, set XLA_PYTHON_CLIENT_PREALLOCATE=false."
    if found.torch_cuda and found.jax_cuda and found.torch_cuda.partition(".")[0] not in found.jax_cuda:
        what = "They are built for different versions of CUDA, each with its cuDNN"
        yield f"{what}, and the one imported first loads its own: install builds for the same version."
