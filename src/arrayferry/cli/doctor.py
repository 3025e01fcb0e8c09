"""`arrayferry doctor`: which frameworks work here, and what to do about the others."""

from __future__ import annotations

import platform
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.markup import escape

import arrayferry
from arrayferry._core.framework import Framework
from arrayferry._core.ownership import REFCOUNTS_RELIABLE
from arrayferry._core.registry import find_framework, registered
from arrayferry._core.speedups import speedups
from arrayferry._explain.render import table
from arrayferry.cli.accelerators import lines, look
from arrayferry.cli.screen import Outcome, one_line
from arrayferry.errors import NotInstalledError

SUMMARY = "say which frameworks work here, and what to do about the others"
EXAMPLES = """\
arrayferry doctor
arrayferry doctor numpy torch
arrayferry doctor --json"""

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
    accelerators = [*lines(look())] if {"torch", "jax"} <= {*working} else []
    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    shown: list[Any] = [f"[{'red' if broken else 'green'}]{verdict}[/]"]
    shown += [f"arrayferry {arrayferry.__version__}, {python}", *(f"[yellow]{text}[/]" for text in notes)]
    rows = [(status.name, status.version or "not installed", status.text) for status in statuses]
    colours = ["" if status.works else "red" if status.version else "dim" for status in statuses]
    shown += ["", table(("framework", "version", ""), rows, colours)]
    shown += ["", *map(escape, accelerators)] if accelerators else []
    data: dict[str, Any] = {"verdict": verdict, "python": platform.python_version(), "notes": notes}
    data |= {"accelerators": accelerators, "frameworks": [status._asdict() for status in statuses]}
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
