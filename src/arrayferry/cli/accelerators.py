"""What `arrayferry doctor` says of torch and JAX in one process: who sees which devices, and what to set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from arrayferry._core.registry import find_framework
from arrayferry.cli.screen import one_line


@dataclass(frozen=True)
class Accelerators:
    """What torch and JAX have here.

    Attributes:
        torch: torch's accelerators, such as `"cuda:0"`.
        jax: JAX's, such as `"cuda:0"`.
        torch_cuda: the version of CUDA that torch is built for; empty for none.
        jax_cuda: the major version of CUDA that JAX's plugin is built for; empty for none.
        cudnn: the version of cuDNN that torch uses; empty for none.
        round_trip: what came of an array that went from torch to JAX and back, on a GPU if both have one.
    """

    torch: tuple[str, ...] = ()
    jax: tuple[str, ...] = ()
    torch_cuda: str = ""
    jax_cuda: str = ""
    cudnn: str = ""
    round_trip: str = ""


def look() -> Accelerators:
    """Ask both frameworks, and send an array there and back."""
    import torch

    theirs = tuple(name for name in find_framework("torch").device_names() if name != "cpu")
    ours = tuple(name for name in find_framework("jax").device_names() if not name.startswith("cpu"))
    return Accelerators(
        torch=theirs,
        jax=ours,
        torch_cuda=torch.version.cuda or "",
        jax_cuda=", ".join(major for major in ("12", "13") if find_spec(f"jax_cuda{major}_plugin")),
        cudnn=str(torch.backends.cudnn.version() or "") if theirs else "",
        round_trip=_round_trip(theirs[0] if theirs and ours else "cpu"),
    )


def _round_trip(device: str) -> str:
    import jax
    import torch

    values = torch.arange(4.0, device=device)
    try:
        back = torch.from_dlpack(jax.numpy.from_dlpack(values))  # type: ignore[attr-defined]
        same = bool((back == values).all())
    except Exception as error:  # whatever a broken driver raises
        return one_line(error)
    return f"{'works' if same else 'changes values'}, by DLPack"


def lines(found: Accelerators, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return what there is in a few lines, and what to set before which import."""
    torch_cuda = f", built for CUDA {found.torch_cuda}" if found.torch_cuda else ""
    jax_cuda = f", built for CUDA {found.jax_cuda}" if found.jax_cuda else ""
    cudnn = f", cuDNN {found.cudnn}" if found.cudnn else ""
    text = [f"torch: {', '.join(found.torch) or 'no accelerator'}{torch_cuda}{cudnn}"]
    text += [f"JAX: {', '.join(found.jax) or 'no accelerator'}{jax_cuda}"]
    text += [f"torch to JAX and back: {found.round_trip}"] if found.round_trip else []
    return [*text, *advice(found, environ)]


def advice(found: Accelerators, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what to set, and before which import."""
    if bool(found.torch) != bool(found.jax):
        has, lacks = ("torch", "JAX") if found.torch else ("JAX", "torch")
        visible = environ.get("CUDA_VISIBLE_DEVICES")
        variable = "" if visible is None else f"; CUDA_VISIBLE_DEVICES={visible!r}"
        yield f"Only {has} sees an accelerator: install a build of {lacks} for it{variable}."
    elif len(found.torch) != len(found.jax):
        yield "They see different devices: set CUDA_VISIBLE_DEVICES for both, before either is imported."
    set_to = {name: environ.get(f"XLA_PYTHON_CLIENT_{name}") for name in ("ALLOCATOR", "PREALLOCATE")}
    preallocates = set_to["ALLOCATOR"] != "platform" and set_to["PREALLOCATE"] not in ("false", "False", "0")
    if found.torch and found.jax and preallocates:
        old = environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION")
        share = float(environ.get("XLA_CLIENT_MEM_FRACTION") or old or ".75")
        what = f"JAX takes {share:.0%} of a GPU's memory when it starts, and leaves torch the rest"
        yield f"{what}: before importing jax, set XLA_PYTHON_CLIENT_PREALLOCATE=false."
    if found.torch_cuda and found.jax_cuda and found.torch_cuda.partition(".")[0] not in found.jax_cuda:
        yield (
            "They are built for different versions of CUDA, each with its cuDNN, and the one imported "
            "first loads its own: install builds for the same version."
        )
