"""`arrayferry check`: drive an environment with random actions while the sanitizer watches."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

import arrayferry
from arrayferry.cli.environments import add_environment, add_target, count, default_target, make, title_of
from arrayferry.cli.screen import Outcome, Screen, table

if TYPE_CHECKING:
    from arrayferry.sanitizer import Finding, Report

SUMMARY = "drive an environment with random actions, and report what is wrong with it"
EXAMPLES = """\
arrayferry check CartPole-v1
arrayferry check MountainCarContinuous-v0 --to torch --steps 200
arrayferry check my_package:MyEnv-v0 --vector 4 --json"""
EXITS_WITH_1 = "not safe as wrapped, or the environment fails; copy=False does not count"

_HEADS = ("", "kind", "where, what, and what to do")
_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the environment, the framework, the number of steps and the seed."""
    add_environment(parser)
    add_target(parser)
    parser.add_argument(
        "--steps", metavar="N", type=count, default=1000, help="steps to take (default: 1000)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of everything (default: 0)")


def run(arguments: Namespace, screen: Screen) -> Outcome:
    """Drive the environment and report."""
    env, to = make(arguments.env, arguments.vector), arguments.to or default_target()
    title = title_of(arguments.env, arguments.vector, to)
    try:
        with screen.progress() as bar:
            bar.add_task(f"watching {title}", total=None)
            report = arrayferry.check(
                env, to, steps=arguments.steps, seed=arguments.seed, device=arguments.device
            )
    finally:
        env.close()
    as_wrapped, shared = verdict(report)
    colour = "green" if report.ok else "red"
    shown: list[Any] = [f"[{colour}]{as_wrapped}[/]; {escape(shared)}"]
    shown += [escape(f"{title}, {report.steps:,} steps")]
    if report.findings:
        shown += ["", table("As wrapped", _HEADS, _rows(report.findings, _COLOURS))]
    if report.sharing:  # what another option would do is no alarm: without colours
        shown += ["", table("Only with copy=False", _HEADS, _rows(report.sharing, {}))]
    data = {"verdict": f"{as_wrapped}; {shared}", **report.as_dict()}
    return Outcome(shown, data, report.ok)


def verdict(report: Report) -> tuple[str, str]:
    """Return in words whether an environment is safe as wrapped, and with `copy=False`."""
    counts = Counter(one.severity for one in report.findings)
    found = [f"{n} {kind}{'s' * (n > 1)}" for kind in ("error", "warning") if (n := counts[kind])]
    as_wrapped = "safe as wrapped" if report.ok else f"not safe as wrapped ({', '.join(found)})"
    if report.not_shared:
        return as_wrapped, f"copy=False is not possible: {report.not_shared}"
    if not report.shareable:
        return as_wrapped, "not safe with copy=False"
    return as_wrapped, "safe with copy=False too" if report.ok else "copy=False adds nothing to that"


def _rows(findings: Iterable[Finding], colours: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for one in findings:
        times = f" ({one.times} times)" if one.times > 1 else ""
        hint = f"; {one.hint}" if one.hint else ""
        text = escape(f"{one.where}: {one.message}{times}{hint}")
        yield f"[{colours.get(one.severity, 'none')}]{one.severity}[/]", one.kind, text
