"""All goals, with a bar while it runs and one table at the end: `make stress`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from reliability import pages
from reliability.goals import NAMES, Goal, find_goal, upper_bound
from reliability.libraries import ARRAYFERRY, GYMNASIUM, Library
from reliability.trials import Outcome, run

# The environments of which it is counted how often an observation is taken over without a copy.
CLASSIC = ["CartPole-v1", "MountainCar-v0", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"]


@dataclass
class Row:
    """A line of the table."""

    name: str
    title: str
    unit: str
    sampled: bool
    ours: Outcome = field(default_factory=Outcome)
    theirs: Outcome | None = None

    @property
    def bound(self) -> str:
        """The bound on the rate of failures."""
        if not self.sampled:
            return "all cases"
        return f"{100 * upper_bound(len(self.ours.failures), self.ours.trials):.2g} %"

    def as_data(self) -> dict[str, Any]:
        """For the file."""
        peer = self.theirs and {"trials": self.theirs.trials, "failures": len(self.theirs.failures)}
        return {
            "name": self.name,
            "date": datetime.date.today().isoformat(),
            "title": self.title,
            "unit": self.unit,
            "trials": self.ours.trials,
            "failures": len(self.ours.failures),
            "bound": self.bound,
            "peer": peer,
            "first_failures": self.ours.failures[:5],
            "first_failures_of_the_peer": self.theirs.failures[:5] if self.theirs else [],
        }


# What is to be run: a name for the bar, how many trials, and the call, told what to call for each trial.
Job = tuple[str, int, Callable[[Callable[[], None]], None]]


def jobs(goal: Goal, row: Row, options: argparse.Namespace) -> Iterator[Job]:
    """The runs that a goal takes."""
    trials = goal.thin if options.quick else goal.full
    for python in [sys.executable, *(options.python if goal.every_python else [])]:
        yield _job(goal, trials, ARRAYFERRY, row.ours, python)
    if goal.peer and not options.alone:
        row.theirs = Outcome()
        yield _job(goal, min(goal.peer, trials), GYMNASIUM, row.theirs, sys.executable)


def _job(goal: Goal, trials: int, library: Library, total: Outcome, python: str) -> Job:
    def work(on_trial: Callable[[], None]) -> None:
        outcome = run(goal, trials, library, on_trial, python)
        total.trials += outcome.trials
        total.failures += outcome.failures

    return f"{goal.name} {library.name}", trials, work


def _fuzzing(row: Row, seconds: int) -> Job:
    def work(on_trial: Callable[[], None]) -> None:
        from reliability import fuzz

        row.ours.trials, findings = fuzz.fuzz(seconds)
        row.ours.failures += findings
        on_trial()

    return "fuzzing", 1, work


def make_all(options: argparse.Namespace, console: Console) -> list[Row]:
    """Run what the options ask for, some jobs at a time."""
    rows, work = [], []
    for name in options.only or NAMES:
        goal = find_goal(name)
        rows.append(Row(goal.name, goal.title, goal.unit, goal.sampled))
        work += jobs(goal, rows[-1], options)
    if options.fuzz and not options.only:
        unit = f"an input of the coverage-guided fuzzer, {options.fuzz} s"
        rows.append(Row("fuzz", "no value breaks the contract", unit, sampled=False))
        work.append(_fuzzing(rows[-1], options.fuzz))
    work.sort(key=lambda job: job[0].startswith(("R5", "R8")), reverse=True)  # the longest first
    columns = [TextColumn("{task.description:>20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(options.workers) as pool:
        overall = progress.add_task("all", total=len(work))

        def do(job: Job) -> None:
            name, trials, call = job
            task = progress.add_task(name, total=trials)
            call(lambda: progress.advance(task))
            progress.remove_task(task)
            progress.advance(overall)

        list(pool.map(do, work))
    return rows


def show(rows: list[Row], console: Console) -> None:
    """The table, and below it what failed."""
    table = Table("goal", "what must hold", "trials", "failures", "at most (95 %)", "Gymnasium 1.4")
    for row in rows:
        peer = f"{len(row.theirs.failures):,} of {row.theirs.trials:,}" if row.theirs else ""
        failures = str(len(row.ours.failures))
        table.add_row(row.name, row.title, f"{row.ours.trials:,}", failures, row.bound, peer)
    console.print(table)
    for row in rows:
        for failure in row.ours.failures[:5]:
            console.print(f"{row.name}, {failure}", markup=False)


def as_data(rows: list[Row], minutes: float) -> dict[str, Any]:
    """All of it, for the docs."""
    from reliability.ownership import hit_rate

    return {
        "date": datetime.date.today().isoformat(),
        "minutes": round(minutes),
        "machine": _machine(),
        "versions": ", ".join(_versions()),
        "goals": [row.as_data() for row in rows],
        "taken_over": {name: hit_rate(name) for name in CLASSIC},
    }


def _merged(published: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The published run, with some of its goals made again or for the first time."""
    goals = {goal["name"]: goal for goal in (*published["goals"], *data["goals"])}
    names = [name for name in (*NAMES, "fuzz") if name in goals]
    return {**published, "goals": [goals[name] for name in names]}


def _write(data: dict[str, Any], file: Path) -> None:
    text = json.dumps(data, indent=1) + "\n"
    text = re.sub(r" from '[^']*'", "", text)  # where a module of this machine is
    file.write_text(text, encoding="utf-8")


def _versions() -> Iterator[str]:
    yield f"Python {platform.python_version()}"
    for name in ("arrayferry", "numpy", "torch", "jax", "gymnasium", "atheris"):
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


def _machine() -> str:
    """The processor, as far as it can be told."""
    processor = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].partition(":")[2].strip() if names else processor
    return f"{os.cpu_count()} cores of {processor}, {platform.system()} {platform.machine()}"


def main() -> None:
    """Parse the options, run, show, write; exit with 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m reliability", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="GOAL", help="R1 R2 ...; else all")
    parser.add_argument(
        "--quick", action="store_true", help="as few trials as in the tests, and 10 s of fuzzing"
    )
    parser.add_argument("--alone", action="store_true", help="not the trials against Gymnasium")
    parser.add_argument(
        "--fuzz", type=int, default=300, metavar="SECONDS", help="0 for none; it needs atheris"
    )
    parser.add_argument("--python", nargs="+", default=[], help="other interpreters for R16")
    parser.add_argument("--workers", type=int, default=2, help="how many runs at a time")
    parser.add_argument("--json", type=Path, default=Path("reliability.json"), help="where the figures go")
    parser.add_argument(
        "--publish", action="store_true", help="into the docs, too; with --only, beside the figures there"
    )
    options = parser.parse_args()
    options.fuzz = min(options.fuzz, 10) if options.quick else options.fuzz
    if options.fuzz and not options.only and not find_spec("atheris"):
        parser.error("there is no atheris to fuzz with: pip install atheris, or --fuzz 0")
    for python in options.python:  # now, and not after half an hour
        if not shutil.which(python):
            parser.error(f"{python} is no interpreter: give its path")
    start, console = time.time(), Console()
    rows = make_all(options, console)
    show(rows, console)
    data = as_data(rows, (time.time() - start) / 60)
    _write(data, options.json)
    console.print(f"The figures are in {options.json}.")
    if options.publish:
        published = json.loads(pages.RESULTS.read_text(encoding="utf-8"))
        _write(_merged(published, data) if options.only else data, pages.RESULTS)
        page = pages.DOCS / "reliability.md"
        page.write_text(pages.put(page, pages.reliability()), encoding="utf-8")
    sys.exit(any(row.ours.failures for row in rows))


if __name__ == "__main__":
    main()
