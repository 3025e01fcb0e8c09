"""`arrayferry check`: the sanitizer watches an environment for an episode, and reports."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

import arrayferry
from arrayferry.cli.environments import add_environment, add_target, count, default_target, make
from arrayferry.cli.exits import FINE, FOUND
from arrayferry.cli.screen import Screen, escaped, table

if TYPE_CHECKING:
    from arrayferry.sanitizer import Finding, Report

SUMMARY = "watch an environment for an episode, and report what is wrong with it"
EXAMPLES = """\
arrayferry check CartPole-v1
arrayferry check MountainCarContinuous-v0 --to torch --steps 1000
arrayferry check my_package:MyEnv-v0 --vector 4 --json"""

_LONGEST = 1000  # steps of an episode that has no end
_STYLES = {"error": "red", "warning": "yellow", "info": "dim"}


def add_arguments(parser: ArgumentParser) -> None:
    """The environment, the framework, and how long."""
    add_environment(parser)
    add_target(parser)
    parser.add_argument(
        "--steps", metavar="N", type=count, help=f"to take (default: an episode, {_LONGEST} at most)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of everything (default: 0)")


def run(arguments: Namespace, screen: Screen) -> int:
    """Watch, report, and fail on a finding."""
    env = make(arguments.env_id, arguments.vector)
    to = arguments.to or default_target()
    try:
        steps = arguments.steps or _episode(env, arguments.seed)
        with screen.out.status(f"watching {steps} steps of {escaped(arguments.env_id)}"):
            report = arrayferry.check(env, to, steps=steps, seed=arguments.seed, device=arguments.device)
    finally:
        env.close()
    many = f" x {arguments.vector}" if arguments.vector else ""
    screen.show(*_shown(report, f"{arguments.env_id}{many} to {to}"))
    screen.result(report.as_dict())
    return FINE if report.ok else FOUND


def _episode(env: Any, seed: int) -> int:
    """How many steps the first episode takes with the actions that will be taken."""
    env.reset(seed=seed)
    env.action_space.seed(seed)
    for steps in range(1, _LONGEST):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if np.any(np.asarray(terminated) | np.asarray(truncated)):
            return steps
    return _LONGEST


def _shown(report: Report, title: str) -> Iterable[Any]:
    if report.findings:
        yield _findings(title, report.findings)
    if report.sharing:
        also = "with copy=False also" if report.findings else f"{title}, with copy=False"
        yield _findings(also, report.sharing)
    if report.not_shared:
        yield escaped(f"copy=False is not possible here: {report.not_shared}")
    elif report.shareable is not None:
        yield f"copy=False is {'safe' if report.shareable else 'not safe'} here"
    found = f"{len(report.findings) + len(report.sharing) or 'nothing'} found"
    colour = "green" if report.ok else "red"
    how = "with copies" if report.shareable is None else "with and without copies"
    yield f"{escaped(title)}: [{colour}]{found}[/] in {report.steps:,} steps, {how}"


def _findings(title: str, findings: Iterable[Finding]) -> Any:
    made = table(escaped(title), "", "kind", "leaf", ">step", "what, and what to do")
    for one in findings:
        severity = f"[{_STYLES[one.severity]}]{one.severity}[/]"
        often = f" ({one.times} times)" if one.times > 1 else ""
        text = f"{one.message}{often}" + (f"; {one.hint}" if one.hint else "")
        made.add_row(severity, one.kind, escaped(one.path), str(one.step), escaped(text))
    return made
