"""`arrayferry doctor`: which frameworks work here, and what to do about the others."""

from __future__ import annotations

import os
import platform
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from rich.markup import escape

import arrayferry
from arrayferry._core.framework import Framework
from arrayferry._core.ownership import REFCOUNTS_RELIABLE
from arrayferry._core.registry import find_framework, registered
from arrayferry._core.speedups import speedups
from arrayferry._explain.render import rich_table
from arrayferry.cli.pairs import Pair, examine
from arrayferry.cli.screen import Outcome, one_line, progress
from arrayferry.errors import NotInstalledError

SUMMARY = "say which frameworks work here, and what to do about the others"
EXAMPLES = """\
arrayferry doctor
arrayferry doctor numpy torch --pairs
arrayferry doctor --json"""
EXITS_WITH_1 = "something that is installed does not work"

_NO_SPEEDUPS = "The C extension is missing, so a step takes about twice as long: install a C compiler, then \
arrayferry from source."
_NO_PROOF = "This Python cannot prove that nobody else holds an array, so every leaf is copied."
_HEADS = ("from", "to", ">16 B µs", ">1 MB µs", "temporary", "share")
_LEGEND = (
    "Times: one thread copies an array that somebody else holds. temporary: what happens to an array that "
    "nobody else holds. share: whether copy=False works."
)


@dataclass(frozen=True)
class Status:
    """A framework: its version (empty if it is not installed), whether it works, and what to know or do."""

    name: str
    version: str
    works: bool
    text: str


def add_arguments(parser: ArgumentParser) -> None:
    """Add the names of frameworks, and whether to convert between them."""
    parser.add_argument("names", metavar="FRAMEWORK", nargs="*", help="only these (default: all)")
    parser.add_argument("--pairs", action="store_true", help="also convert from each to each, and time it")


def run(arguments: Namespace) -> Outcome:
    """Examine the frameworks, and their pairs if asked."""
    if arguments.pairs:
        # A copy that OpenMP splits among threads takes a thousand times as long whenever one of them has to
        # wait for a core. The variable is read when a framework is imported, which happens below.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    statuses = sorted(map(status_of, _chosen(arguments.names)), key=lambda one: not one.version)
    working = [one.name for one in statuses if one.works]
    candidates = [*product(working, repeat=2)] if arguments.pairs else []
    with progress() as bar:
        pairs = [examine(*pair) for pair in bar.track(candidates, description="converting")]
    broken = [one.name for one in statuses if one.version and not one.works]
    broken += [f"{pair.source} to {pair.target}" for pair in pairs if pair.problem]
    verdict = f"does not work: {', '.join(broken)}" if broken else f"fine: {', '.join(working)}"
    notes = [text for here, text in ((speedups, _NO_SPEEDUPS), (REFCOUNTS_RELIABLE, _NO_PROOF)) if not here]
    where = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    shown: list[Any] = [f"[{'red' if broken else 'green'}]{verdict}[/]"]
    shown += [f"arrayferry {arrayferry.__version__}, {where}", *(f"[yellow]{text}[/]" for text in notes)]
    shown += ["", rich_table("", ("framework", "version", ""), _status_rows(statuses))]
    if pairs:
        shown += ["", rich_table("", _HEADS, _pair_rows(pairs)), _LEGEND]
    data = {
        "verdict": verdict,
        "python": platform.python_version(),
        "notes": notes,
        "frameworks": [asdict(one) for one in statuses],
        "pairs": [asdict(pair) for pair in pairs],
    }
    return Outcome(shown, data, not broken)


def _chosen(names: Sequence[str]) -> list[str]:
    here = arrayferry.frameworks()
    for name in names:
        if name not in here:
            find_framework(name)  # raises, and says what to do
    wanted = list(dict.fromkeys(names)) or list(registered())
    # Those that must be imported before others come first.
    return sorted(wanted, key=lambda name: type(registered()[name]).before_import is Framework.before_import)


def status_of(name: str) -> Status:
    """Import a framework and ask it for its devices and dtypes."""
    here = arrayferry.frameworks()
    version = here[name].version if name in here else ""
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


def _status_rows(statuses: Iterable[Status]) -> Iterator[tuple[str, ...]]:
    for one in statuses:
        colour = "none" if one.works else "red" if one.version else "dim"
        yield one.name, one.version or "not installed", f"[{colour}]{escape(one.text)}[/]"


def _pair_rows(pairs: Iterable[Pair]) -> Iterator[tuple[str, ...]]:
    for pair in pairs:
        if pair.problem:
            yield pair.source, pair.target, "", "", "[red]fails[/]", f"[red]{escape(pair.problem)}[/]"
            continue
        times = (f"{seconds * 1e6:.1f}" for seconds in (pair.small, pair.large))
        yield pair.source, pair.target, *times, pair.temporary, pair.shares
