"""`arrayferry bench`: what a wrapper adds to a step of an environment."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping

from rich.markup import escape

from arrayferry.cli.environments import add_environment, add_target, count, default_target, title_of
from arrayferry.cli.rivals import BARE, BY_HAND, GYMNASIUM, OURS, Trip, problem_with, rival
from arrayferry.cli.screen import Outcome, Screen, table

SUMMARY = "measure what a wrapper adds to a step: ours, Gymnasium's, one written by hand"
EXAMPLES = """\
arrayferry bench
arrayferry bench Pendulum-v1 --to jax
arrayferry bench my_package:MyEnv-v0 --to torch --vector 16 --json"""
EXITS_WITH_1 = "the environment fails"

_ORDER = (BARE, BY_HAND, GYMNASIUM, OURS)
_BAR = 24  # characters
_FEWEST, _MOST = 8, 512  # steps of a trip


def add_arguments(parser: ArgumentParser) -> None:
    """Add the environment, the framework and the number of laps."""
    add_environment(parser, default="CartPole-v1")
    add_target(parser, device=False)
    parser.add_argument("--laps", metavar="N", type=count, default=30, help="turns of each (default: 30)")


def run(arguments: Namespace, screen: Screen) -> Outcome:
    """Measure all rivals that work."""
    what = arguments.env, arguments.vector, arguments.to or default_target()
    title = title_of(*what)
    trips = {OURS: rival(OURS, *what)}  # wrong arguments raise here
    with screen.progress() as bar:
        others = bar.track((BY_HAND, GYMNASIUM), description=f"{title}: trying the others")
        problems = {name: text for name in others if (text := problem_with(name, *what))}
        trips |= {name: rival(name, *what) for name in _ORDER[:-1] if name not in problems}
        best = replay(trips, bar.track(range(arguments.laps), description=f"{title}: taking turns"))
    times = {name: best[name] * 1e6 for name in _ORDER if name in best}
    failed = [f"{name}: [red]{escape(text)}[/]" for name, text in problems.items()]
    data = {"title": title, "microseconds": times, "problems": problems}
    return Outcome([table(title, ("", ">µs a step", ">added", ""), _rows(times)), *failed], data)


def replay(trips: Mapping[str, Trip], laps: Iterable[int], seconds: float = 0.02) -> dict[str, float]:
    """Return the mean seconds a step of each, from the best time of each step of trips of about `seconds`.

    Other processes only ever add to a time, so the minimum is closest to the truth; and as the rivals take
    turns, none of them has the quiet moments of the machine to itself.
    """
    slowest = max(sum(trip(_FEWEST)) for trip in trips.values()) / _FEWEST
    steps = int(min(_MOST, max(_FEWEST, seconds / slowest)))
    best = {name: [float("inf")] * steps for name in trips}
    for _ in laps:
        for name, trip in trips.items():
            best[name] = [min(pair) for pair in zip(best[name], trip(steps))]
    return {name: sum(times) / steps for name, times in best.items()}


def _rows(times: Mapping[str, float]) -> Iterator[tuple[str, ...]]:
    for name, time in times.items():
        bar = "█" * max(1, round(_BAR * time / max(times.values())))
        added = "" if name == BARE else f"{max(0.0, time - times[BARE]):.1f}"
        yield name, f"{time:.1f}", added, f"[cyan]{bar}[/]"
