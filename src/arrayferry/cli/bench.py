"""`arrayferry bench`: what a wrapper adds to a step of your own environment."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from arrayferry._explain.render import microseconds
from arrayferry.cli import pictures
from arrayferry.cli.environments import add_environment, add_target, count, default_target
from arrayferry.cli.exits import FINE
from arrayferry.cli.measure import replay
from arrayferry.cli.rivals import BARE, BY_HAND, THEIRS, rivals, trouble_by_hand, trouble_with_theirs
from arrayferry.cli.screen import Screen, escaped, table

SUMMARY = "what a wrapper adds to a step: ours, Gymnasium's, and one written by hand"
EXAMPLES = """\
arrayferry bench
arrayferry bench Pendulum-v1 --to jax
arrayferry bench my_package:MyEnv-v0 --to torch --vector 16 --plot bench.png"""

_BAR = 24  # characters


def add_arguments(parser: ArgumentParser) -> None:
    """The environment, the framework, how long, and the picture."""
    add_environment(parser, default="CartPole-v1")
    add_target(parser, device=False)
    parser.add_argument("--laps", metavar="N", type=count, default=30, help="turns of each (default: 30)")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="save a picture, as FILE.png, .svg or .pdf")


def run(arguments: Namespace, screen: Screen) -> int:
    """Measure, show, and draw."""
    if arguments.plot:
        pictures.require(arguments.plot)
    to = arguments.to or default_target()
    result = compare(arguments.env_id, arguments.vector, to, arguments.laps, screen)
    screen.show(*shown(result))
    screen.result(result)
    if arguments.plot:
        pictures.bars(arguments.plot, result["title"], result["microseconds"])
        screen.show(escaped(f"saved {arguments.plot}"))
    return FINE


def compare(env_id: str, vector: int | None, to: str, laps: int, screen: Screen) -> dict[str, Any]:
    """Microseconds a step of each rival, by name; and of those that cannot do it, why not."""
    title = f"{env_id}{f' x {vector}' if vector else ''} to {to}"
    with screen.progress(f"{title}: who can do it?", total=4 * laps + 1) as tell:
        rivals(env_id, vector, to, without=[BY_HAND, THEIRS])  # what is wrong with the arguments is said here
        rows = {BY_HAND: trouble_by_hand, THEIRS: trouble_with_theirs}
        fails = {name: text for name, trouble in rows.items() if (text := trouble(env_id, vector, to))}
        tell(advance=1, description=f"{title}: taking turns")
        best = replay(rivals(env_id, vector, to, fails), laps, after_lap=lambda: tell(advance=1))
    times = {name: seconds * 1e6 for name, seconds in best.items()}
    return {"title": title, "microseconds": times, "fails": fails}


def shown(result: dict[str, Any]) -> list[Any]:
    """The result as a table with bars of text."""
    times: dict[str, float] = result["microseconds"]
    longest, bare = max(times.values()), times[BARE]
    made = table(result["title"], "", ">µs a step", ">it adds", "")
    for name, time in times.items():
        bar = "█" * max(1, round(_BAR * time / longest))
        added = "" if name == BARE else microseconds(max(0.0, time - bare) / 1e6)
        made.add_row(name, microseconds(time / 1e6), added, f"[cyan]{bar}[/]")
    failed = [f"{name}: [red]{escaped(trouble)}[/]" for name, trouble in result["fails"].items()]
    return [made, *failed]
