"""`arrayferry doctor`: what is installed, how arrays cross here, what is missing."""

from __future__ import annotations

import platform
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any

import arrayferry
from arrayferry._core import ownership
from arrayferry._core.registry import find_framework, registered
from arrayferry._core.speedups import speedups
from arrayferry._explain.render import microseconds
from arrayferry.cli.exits import FINE, FOUND, UsageError, one_line
from arrayferry.cli.pairs import Pair, look_at, memcpy_seconds
from arrayferry.cli.screen import Screen, escaped, table

SUMMARY = "what is installed here, how each pair of frameworks fares, and what is missing"
EXAMPLES = """\
arrayferry doctor
arrayferry doctor numpy torch
arrayferry doctor --json"""

# What the commands can use beyond the frameworks: the module, what it is for, what installs it.
_TOOLS = (
    ("matplotlib", "pictures of bench and demo", '"arrayferry[cli]"'),
    ("pygame", "frames of classic environments", '"gymnasium[classic-control]"'),
    ("flax", "Gymnasium's environments in JAX", "flax"),
    ("ml_dtypes", "bfloat16 and float8 in NumPy", "ml-dtypes"),
)


@dataclass(frozen=True)
class Installed:
    """One framework, as it is here; `problem` says why it cannot be used, if it cannot."""

    name: str
    version: str
    devices: tuple[str, ...] = ()
    x64: bool = False
    int_dtype: str = ""
    float_dtype: str = ""
    problem: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    """Which frameworks; all of them if none is named."""
    parser.add_argument("names", metavar="FRAMEWORK", nargs="*", help="look only at these")


def run(arguments: Namespace, screen: Screen) -> int:
    """Look, measure and show; fail if a framework is installed but cannot be used."""
    frameworks = [_look(name) for name in _chosen(arguments.names)]
    usable = [one.name for one in frameworks if not one.problem]
    pairs, memcpy = [], 0.0
    with screen.progress("sending arrays", total=len(usable) ** 2 + 1) as tell:
        memcpy = memcpy_seconds()
        tell(advance=1)
        for source, target in product(usable, repeat=2):
            pairs.append(look_at(source, target))
            tell(advance=1)
    missing = _missing()
    screen.show(_about(), _frameworks_table(frameworks), "", _pairs_table(pairs, memcpy), _LEGEND, "")
    screen.show(_missing_table(missing))
    screen.result(
        {
            "python": platform.python_version(),
            "takes_over": ownership.COUNTS_PROVE,
            "in_c": speedups is not None,
            "frameworks": [asdict(one) for one in frameworks],
            "memcpy_seconds": memcpy,
            "pairs": [asdict(pair) for pair in pairs],
            "missing": [{"name": name, "what": what, "command": command} for name, what, command in missing],
        }
    )
    broken = any(one.problem for one in frameworks) or any(pair.problem for pair in pairs)
    return FOUND if broken else FINE


def _chosen(names: Sequence[str]) -> list[str]:
    here = arrayferry.frameworks()
    for name in names:
        if name not in registered():
            find_framework(name)  # raises, and says what there is
        if name not in here:
            raise UsageError(f"{name} is not installed: {_command(name)}")
    # Those that mind what was imported before them come first.
    wanted = list(dict.fromkeys(names)) or list(here)
    return sorted(wanted, key=lambda name: registered()[name].before_import is None)


def _look(name: str) -> Installed:
    version = arrayferry.frameworks()[name].version
    try:
        framework = find_framework(name)
        devices = framework.devices.available()
        if not devices:
            return Installed(name, version, problem="it has no device here")
        scalars, dtypes = framework.default_dtypes(None), framework.dtypes(None)
        x64 = {"int64", "float64"} <= dtypes
        return Installed(name, version, devices, x64, scalars[int], scalars[float])
    except Exception as error:  # a broken installation breaks in its own way
        return Installed(name, version, problem=one_line(error))


def _command(name: str) -> str:
    framework = registered()[name]
    package = (*framework.distributions, name)[0]
    return f"pip install {package}"


def _missing() -> list[tuple[str, str, str]]:
    here = arrayferry.frameworks()
    frameworks = [(name, "a framework", _command(name)) for name in registered() if name not in here]
    tools = [(name, what, f"pip install {how}") for name, what, how in _TOOLS if find_spec(name) is None]
    return frameworks + tools


def _about() -> str:
    way = "taken over where nobody else holds it" if ownership.COUNTS_PROVE else "always copied"
    where = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    slow = "" if speedups or not ownership.COUNTS_PROVE else _WITHOUT_C
    return f"arrayferry {arrayferry.__version__} on {where}; memory is {way}{slow}\n"


_WITHOUT_C = (
    ".\nThe part in C is not here, so a step takes about twice as long. It is built when arrayferry is "
    "installed from source, if there is a C compiler."
)


def _frameworks_table(frameworks: Iterable[Installed]) -> Any:
    made = table("Frameworks", "name", "version", "64-bit", "int", "float", "devices")
    for one in frameworks:
        dtypes = ("yes" if one.x64 else "no", one.int_dtype, one.float_dtype)
        problem = escaped(one.problem)
        found = ("", "", "", f"[red]{problem}[/]") if problem else (*dtypes, ", ".join(one.devices))
        made.add_row(one.name, one.version, *found)
    return made


_LEGEND = (
    "fresh: what becomes of an array that nobody else holds. The times are of one that is held, and so "
    "copied; memcpy: its speed beside that of a bare copy. share: whether copy=False works."
)


def _pairs_table(pairs: Iterable[Pair], memcpy: float) -> Any:
    heads = "from, to", "fresh", ">16 B µs", ">1 MB µs", ">GB/s", ">memcpy", "share"
    made = table(f"Pairs (memcpy of 1 MB: {microseconds(memcpy)} µs)", *heads)
    source = ""
    for pair in pairs:
        if pair.source != source:
            source = pair.source
            made.add_row(f"[bold]{source}[/]")
        route = "".join(f"→{name}" for name in pair.route[1:]) or f"→{pair.target}"
        if pair.problem:
            made.add_row(f" {route}", f"[red]{escaped(pair.problem)}[/]")
            continue
        made.add_row(
            f" {route}",
            f"[green]{pair.fresh}[/]" if pair.fresh == "taken over" else pair.fresh,
            microseconds(pair.small),
            microseconds(pair.large),
            f"{pair.bandwidth / 1e9:.1f}",
            f"{100 * memcpy / pair.large:.0f} %",
            pair.shares,
        )
    return made


def _missing_table(missing: Iterable[tuple[str, str, str]]) -> Any:
    made = table("Not installed", "name", "what for", "the command")
    made.columns[-1].no_wrap = True  # to be copied
    for row in missing:
        made.add_row(*map(escaped, row))
    return made if made.row_count else "[bold]Not installed[/]: nothing is missing"
