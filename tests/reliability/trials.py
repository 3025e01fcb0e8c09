"""A process that makes trials, and its parent, who counts: what dies or hangs is a failure like others.

The child writes a line for each trial. If it dies, the trial that it was at has failed, and the next
child goes on behind it. So every trial has its own verdict without a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reliability.goals import Goal
from reliability.libraries import LIBRARIES, Library

TESTS = Path(__file__).resolve().parent.parent
SOURCE = TESTS.parent / "src"


@dataclass
class Outcome:
    """How many trials were made, and what went wrong, in the order of the trials."""

    trials: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, failure: str) -> None:
        """One more trial; the failure is empty if there was none."""
        if failure:
            self.failures.append(f"trial {self.trials}: {failure}")
        self.trials += 1


def attempt(goal: Goal, number: int, library: Library) -> str:
    """Make one trial here. What went wrong, in a line; empty if nothing did."""
    try:
        goal.trial(number, library)
    except Exception as error:
        lines = str(error).splitlines() or [""]
        return f"{type(error).__name__}: {lines[0]}"[:300]
    return ""


def run_here(goal: Goal, trials: int, library: Library) -> Outcome:
    """Make trials in this process."""
    outcome = Outcome()
    for number in range(trials):
        outcome.add(attempt(goal, number, library))
    return outcome


def run(
    goal: Goal,
    trials: int,
    library: Library,
    on_trial: Callable[[], None] = lambda: None,
    python: str = sys.executable,
    program: Sequence[str] = ("-m", "reliability.trials"),
) -> Outcome:
    """Make trials in processes of their own: a new one after each death."""
    outcome = Outcome()
    while outcome.trials < trials:
        command = [python, *program, goal.name, library.name, str(outcome.trials), str(trials)]
        before = outcome.trials
        child = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{TESTS}"},
            cwd=TESTS,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that it can be ended with all that it started
        )
        ending = _listen(child, goal.patience, outcome, on_trial)
        if ending == "exit code 1" and outcome.trials == before:  # Python says so itself: it died of nothing
            raise RuntimeError(f"this does not start: {' '.join(command)}")
        if not ending and goal.every_python:  # another Python may have fewer cases
            break
        if outcome.trials < trials:
            outcome.add(ending or "ended early")
            on_trial()
        elif ending:
            outcome.failures.append(f"after the last trial: {ending}")
    return outcome


def _listen(
    child: subprocess.Popen[bytes], patience: float, outcome: Outcome, on_trial: Callable[[], None]
) -> str:
    """Count what the child reports until it ends. How it ended, if not well."""
    assert child.stdout is not None
    pending = b""
    with child, selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while _ready(selector, patience):
            read = os.read(child.stdout.fileno(), 65536)
            if not read:
                break
            *lines, pending = (pending + read).split(b"\n")
            for line in lines:
                outcome.add(json.loads(line))
                on_trial()
        else:
            os.killpg(child.pid, signal.SIGKILL)
            return f"no answer for {patience:g} s"
        if not finished(child, patience):
            return f"no exit for {patience:g} s"
    code = child.returncode
    if code < 0:
        return f"died of {signal.Signals(-code).name}"
    return f"exit code {code}" if code else ""


# Time is counted in seconds in which this process was running, too: on a machine that pauses all of it
# for a while, nothing hangs.


def _ready(selector: selectors.BaseSelector, patience: float) -> bool:
    return any(selector.select(1) for _ in range(math.ceil(patience)))


def finished(program: subprocess.Popen[Any], patience: float) -> bool:
    """Whether a program ends within this time; if not, it is ended, with all in its session."""
    for _ in range(math.ceil(patience)):
        with suppress(subprocess.TimeoutExpired):
            program.wait(1)
            return True
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    return False


def run_program(arguments: Sequence[str], patience: float) -> tuple[int | None, str, str]:
    """The exit code of a program in Python, None if it had to be ended, and what it said and complained."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        program = subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{TESTS}"},
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        code = program.returncode if finished(program, patience) else None
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def main() -> None:
    """Make the trials that the command line asks for, and report each on standard output."""
    from reliability.goals import find_goal

    goal, library = find_goal(sys.argv[1]), LIBRARIES[sys.argv[2]]
    start, stop = map(int, sys.argv[3:])
    report = os.dup(1)
    os.dup2(2, 1)  # what a framework prints is no report
    for number in range(start, min(stop, goal.full)):
        os.write(report, json.dumps(attempt(goal, number, library)).encode() + b"\n")
    os.close(report)


if __name__ == "__main__":
    main()
