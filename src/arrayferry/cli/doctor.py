"""`arrayferry doctor`: which frameworks work here, and what to do about the others."""

from __future__ import annotations

import os
import platform
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from rich.markup import escape

import arrayferry
from arrayferry._core.framework import Framework
from arrayferry._core.ownership import REFCOUNTS_RELIABLE
from arrayferry._core.registry import find_framework, registered
from arrayferry._core.speedups import speedups
from arrayferry._explain.render import table
from arrayferry.cli.screen import Outcome, one_line
from arrayferry.errors import NotInstalledError

SUMMARY = "say which frameworks work here, and what to do about the others"
EXAMPLES = """\
arrayferry doctor
arrayferry doctor numpy torch
arrayferry doctor --json"""
EXITS_WITH_1 = "something that is installed does not work"

_NO_SPEEDUPS = "The C extension is missing, so a step takes about twice as long: install a C compiler, then \
arrayferry from source."
_NO_PROOF = "This Python cannot prove that nobody else holds an array, so every leaf is copied."


class Status(NamedTuple):
    """A framework: its version (empty if it is not installed), whether it works, and what to know or do."""

    name: str
    version: str
    works: bool
    text: str


def add_arguments(parser: ArgumentParser) -> None:
    """Add the names of frameworks."""
    parser.add_argument("names", metavar="FRAMEWORK", nargs="*", help="only these (default: all)")


def run(arguments: Namespace) -> Outcome:
    """Examine the frameworks."""
    statuses = sorted(map(status_of, _chosen(arguments.names)), key=lambda status: not status.version)
    working = [status.name for status in statuses if status.works]
    broken = [status.name for status in statuses if status.version and not status.works]
    verdict = f"does not work: {', '.join(broken)}" if broken else f"fine: {', '.join(working)}"
    notes = [_NO_SPEEDUPS] * (not speedups) + [_NO_PROOF] * (not REFCOUNTS_RELIABLE)
    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    shown: list[Any] = [f"[{'red' if broken else 'green'}]{verdict}[/]"]
    shown += [f"arrayferry {arrayferry.__version__}, {python}", *(f"[yellow]{text}[/]" for text in notes)]
    rows = [(status.name, status.version or "not installed", status.text) for status in statuses]
    colours = ["" if status.works else "red" if status.version else "dim" for status in statuses]
    shown += ["", table(("framework", "version", ""), rows, colours)]
    accelerators = [*lines(look())] if {"torch", "jax"} <= {*working} else []
    shown += ["", *map(escape, accelerators)] if accelerators else []
    data = {
        "verdict": verdict,
        "python": platform.python_version(),
        "notes": notes,
        "accelerators": accelerators,
        "frameworks": [status._asdict() for status in statuses],
    }
    return Outcome(shown, data, not broken)


def _chosen(names: Sequence[str]) -> list[str]:
    installed = arrayferry.frameworks()
    for name in names:
        if name not in installed:
            find_framework(name)  # raises, and says what to do
    wanted = list(dict.fromkeys(names)) or list(registered())
    # Those that must be imported before others come first.
    return sorted(wanted, key=lambda name: type(registered()[name]).load is Framework.load)


def status_of(name: str) -> Status:
    """Import a framework and ask it for its devices and dtypes."""
    installed = arrayferry.frameworks()
    version = installed[name].version if name in installed else ""
    try:
        framework = find_framework(name)
        devices = framework.device_names()
        lacking = sorted({"int64", "float64"} - framework.target(None).dtypes(), reverse=True)
    except NotInstalledError as error:
        return Status(name, version, False, one_line(error) if version else error.hint)
    except Exception as error:  # whatever a broken installation raises
        return Status(name, version, False, one_line(error))
    if not devices:
        return Status(name, version, False, "it finds no device here")
    without = f"; no {' or '.join(lacking)}" if lacking else ""
    hint = f": {framework.widening_hint}" if lacking and framework.widening_hint else ""
    return Status(name, version, True, f"fine, on {', '.join(devices)}{without}{hint}")


# ---- torch and JAX in one process -----------------------------------------------------------------------


class Accelerators(NamedTuple):
    """What torch and JAX have here: their accelerators, and the versions of CUDA that they are built for."""

    torch: Sequence[str] = ()
    jax: Sequence[str] = ()
    torch_cuda: str = ""
    jax_cuda: str = ""


def look() -> Accelerators:
    """Ask both frameworks."""
    import torch

    theirs, ours = map(_accelerators_of, ("torch", "jax"))
    plugins = [version for version in ("12", "13") if find_spec(f"jax_cuda{version}_plugin")]
    return Accelerators(theirs, ours, torch.version.cuda or "", ", ".join(plugins))


def _accelerators_of(name: str) -> list[str]:
    return [device for device in find_framework(name).device_names() if not device.startswith("cpu")]


def lines(found: Accelerators, environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield what there is, and what to set before which import."""
    both = ("torch", found.torch, found.torch_cuda), ("JAX", found.jax, found.jax_cuda)
    for name, devices, cuda in both:
        yield f"{name}: {', '.join(devices) or 'no accelerator'}{f', built for CUDA {cuda}' if cuda else ''}"
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
