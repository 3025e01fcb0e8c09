"""`arrayferry check`: drive an environment with random actions while the sanitizer watches."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import Any

from rich.markup import escape

import arrayferry
from arrayferry._explain.render import table
from arrayferry.cli.environments import add_environment, count, make, title_of
from arrayferry.cli.screen import Outcome, status

SUMMARY = "drive an environment with random actions, and report what is wrong with it"
EXAMPLES = """\
arrayferry check CartPole-v1
arrayferry check MountainCarContinuous-v0 --to torch --steps 200
arrayferry check my_package:MyEnv-v0 --vector 4 --json"""

_HEADS = ("", "kind", "where, what, and what to do")
_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the environment, the framework, the number of steps and the seed."""
    add_environment(parser, to="numpy")
    steps = "steps of each of the two runs (default: 1000)"
    parser.add_argument("--steps", metavar="N", type=count, default=1000, help=steps)
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed for everything (default: 0)")


def run(arguments: Namespace) -> Outcome:
    """Drive the environment and report."""
    to = arguments.to or "numpy"
    title = title_of(arguments.env, arguments.vector, to)
    with closing(make(arguments.env, arguments.vector)) as env, status(f"watching {title}"):
        report = arrayferry.check(env, to, arguments.device, steps=arguments.steps, seed=arguments.seed)
    as_wrapped, semicolon, shared = escape(report.verdict).partition(";")
    shown: list[Any] = [f"[{'green' if report.ok else 'red'}]{as_wrapped}[/]{semicolon}{shared}"]
    shown += [escape(f"{title}, {report.steps:,} steps")]
    for heading, findings in ("As wrapped", report.findings), ("Only with copy=False", report.sharing):
        rows = [(finding.severity, finding.kind, finding.text) for finding in findings]
        # What another option would do is no cause for alarm: it has no colours.
        styles = [_COLOURS[finding.severity] for finding in findings if findings is report.findings]
        shown += ["", f"[bold]{heading}[/]", table(_HEADS, rows, styles)] if rows else []
    return Outcome(shown, report.as_dict(), report.ok)
