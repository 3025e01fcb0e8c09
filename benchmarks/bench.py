"""How much conversion adds to a step: `make bench`. It prints tables, and saves a JSON file and plots.

All rivals of a work run in one process, lap by lap in turn, and the fastest lap of each counts: the
machine's noise only ever adds. A rival's overhead is its time less that of the bare environment. The spread
of a ratio is the lowest and the highest that every third lap alone would give.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import warnings
from collections.abc import Callable
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import plots
import sizes
from measure import measure, measure_laps
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from works import BARE, BY_HAND, OURS, THEIRS, WORKS, cartpole

# What the rivals are installed as.
_LIBRARIES = "numpy torch jax gymnasium stable-baselines3 tianshou ray torchrl".split()
_BEGIN, _END = "<!-- made by benchmarks/bench.py: begin -->", "<!-- end -->"
_COLUMNS = (
    BY_HAND,
    THEIRS,
    OURS,
    "Gymnasium / arrayferry",
    "arrayferry / by hand",
    "spread",
)
_NOT_MEASURED = "GPUs; what a step costs in your environment (arrayferry bench YOUR_ENV measures that)"


def machine() -> dict[str, str]:
    """Where this was measured, and with what."""
    found = {"cpu": _cpu(), "cores": str(os.cpu_count()), "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def overheads(laps: int, seconds: float, only: str, console: Console) -> dict[str, Any]:
    """Microseconds a step over the bare environment, of each rival in each work; and spreads of ratios."""
    results, spreads = {}, {}
    works = {name: work for name, work in WORKS.items() if only.lower() in name.lower()}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("measuring", total=len(works))
        for name, work in works.items():
            progress.update(task, description=name)
            times = measure_laps(work(), laps, seconds)
            results[name] = over_bare(times)
            thirds = [over_bare({rival: each[i::3] for rival, each in times.items()}) for i in range(3)]
            spreads[name] = sorted(_ratios(us)[-1] for us in thirds)
            progress.advance(task)
    return {"overhead": results, "spread": spreads}


def over_bare(times: dict[str, list[float]]) -> dict[str, float]:
    """Microseconds that the fastest lap of each rival adds to that of the bare environment."""
    bare = min(times[BARE])
    return {rival: (min(each) - bare) * 1e6 for rival, each in times.items() if rival != BARE}


def show(results: dict[str, Any], console: Console) -> None:
    """The table of ratios, and the other libraries."""
    title = "overhead over the bare environment, microseconds a step"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("work")
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    for name, us in results["overhead"].items():
        table.add_row(name, *_cells(us, results["spread"][name]))
    console.print(table)
    for name, us in results["overhead"].items():
        if others := {rival: us[rival] for rival in us if rival not in (BY_HAND, THEIRS, OURS)}:
            told = ", ".join(f"{rival} {time:.1f}" for rival, time in others.items())
            console.print(f"{name}: {told}, arrayferry {us[OURS]:.1f} microseconds")


def _ratios(us: dict[str, float]) -> list[float]:
    """How many times as much Gymnasium adds, and how many times what is added by hand we add; if measured."""
    theirs = [us[THEIRS] / us[OURS]] if THEIRS in us else []
    return [*theirs, *([us[OURS] / us[BY_HAND]] if BY_HAND in us else [])] or [1.0]


def _cells(us: dict[str, float], spread: list[float]) -> list[str]:
    """What stands in a row of the table, in the order of the columns."""
    nothing = {BY_HAND: "", THEIRS: "fails"}
    times = [f"{us[rival]:.1f}" if rival in us else nothing[rival] for rival in (BY_HAND, THEIRS, OURS)]
    less = f"{us[THEIRS] / us[OURS]:.1f}x" if THEIRS in us else ""
    by_hand = f"{us[OURS] / us[BY_HAND]:.2f}x" if BY_HAND in us else ""
    between = f"{spread[0]:.2f} to {spread[-1]:.2f}" if less or by_hand else ""
    return [*times, less, by_hand, between]


def publish(results: dict[str, Any]) -> None:
    """The table and the plots in `docs/speed.md`."""
    page, images = Path("docs/speed.md"), Path("docs/images")
    images.mkdir(exist_ok=True)
    plots.draw(results, images)
    head, _, rest = page.read_text().partition(_BEGIN)
    page.write_text(f"{head}{_BEGIN}\n{as_markdown(results)}\n{_END}{rest.partition(_END)[2]}")


def as_markdown(results: dict[str, Any]) -> str:
    """The table of ratios, and where it was measured."""
    lines = [f"| work | {' | '.join(_COLUMNS)} |", "|---|--:|--:|--:|--:|--:|--:|"]
    cells = {name: _cells(us, results["spread"][name]) for name, us in results["overhead"].items()}
    lines += [f"| {' | '.join([name, *row])} |" for name, row in cells.items()]
    where = ", ".join(f"{key} {value}" for key, value in results["where"].items())
    measured = f"Microseconds a step, on {date.today()}: {where}."
    return "\n".join([*lines, "", measured])


def main() -> None:
    """Measure, show, and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=0.01, help="of a lap")
    parser.add_argument("--only", default="", help="works whose name has this in it; nothing is saved")
    parser.add_argument(
        "--to", type=Path, default=Path("benchmarks/results"), help="folder for what is saved"
    )
    parser.add_argument("--publish", action="store_true", help="put the table and the plots into the docs")
    arguments = parser.parse_args()
    if not any(arguments.only.lower() in name.lower() for name in WORKS):
        parser.error(f"--only {arguments.only}: it is in none of {'; '.join(WORKS)}")
    warnings.simplefilter("ignore")
    console = Console()
    where = machine()
    results: dict[str, Any] = {"where": where, "not measured": _NOT_MEASURED}
    results |= overheads(arguments.laps, arguments.seconds, arguments.only, console)
    show(results, console)
    if not arguments.only:
        best = measure(cartpole(), arguments.laps, arguments.seconds)
        results["CartPole-v1"] = {rival: best[rival] * 1e6 for rival in best}
        told = ", ".join(f"{rival} {us:.1f}" for rival, us in results["CartPole-v1"].items())
        console.print(f"CartPole-v1 to torch, a whole step: {told} microseconds")
        results |= with_progress(sizes.measure_all, console)
        sizes.show(results, console)
        arguments.to.mkdir(exist_ok=True)
        (arguments.to / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        plots.draw(results, arguments.to)
        if arguments.publish:
            publish(results)
        console.print(f"Saved to {arguments.to}: results.json, and the plots.")
    console.print("On " + ", ".join(f"{key} {value}" for key, value in where.items()) + ".")
    console.print(f"Not measured: {_NOT_MEASURED}.")


def with_progress(
    work: Callable[[Callable[[str], None]], dict[str, Any]], console: Console
) -> dict[str, Any]:
    """A work that tells what it is about."""
    with console.status("measuring sizes") as status:
        return work(lambda text: status.update(f"measuring {text}"))


if __name__ == "__main__":
    main()
