"""The goals: trials that can be repeated by number. A file is imported when a goal in it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from reliability.libraries import Library

Trial = Callable[[int, Library], None]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A figure to hold.

    Attributes:
        name: its name in the table, `R1`.
        title: what must not happen, or must always.
        trial: `(number, library)`; raises when the goal is missed. The number decides all that is random.
        unit: what one trial is.
        full: how many trials `make stress` makes.
        thin: how many of them `make test` makes.
        peer: how many are made against Gymnasium's own conversion; none where it has no such thing.
        sampled: whether the trials are draws, so that their number bounds the rate of failures. If not,
            they are all the cases there are.
        isolated: whether the trials need a process that does nothing else, even when there are few.
        patience: after this many seconds, a trial hangs.
        every_python: whether the trials are made with each interpreter that `make stress` is told of.
    """

    name: str
    title: str
    trial: Trial
    unit: str
    full: int
    thin: int
    peer: int = 0
    sampled: bool = True
    isolated: bool = False
    patience: float = 120
    every_python: bool = False


# Where each goal is; not all of these files need all frameworks.
_FILES = {
    "conversions": "R1 R3 R9 R11 R21",
    "concurrency": "R2 R7",
    "bad_inputs": "R4 R10",
    "process_exits": "R5",
    "leaks": "R6",
    "async_vector_env": "R8",
    "environments": "R12 R13 R15",
    "gradients": "R14",
    "ownership": "R16",
    "framework_assumptions": "R17",
    "global_states": "R18",
    "actions": "R19 R23",
    "containers": "R20",
    "spaces": "R22 R24",
    "worker_processes": "R25 R26 R27",
    "jax_environments": "R28 R29",
    "unknown_classes": "R30",
}

NAMES = sorted(" ".join(_FILES.values()).split(), key=lambda name: int(name[1:]))


@cache
def find_goal(name: str) -> Goal:
    """The goal of that name."""
    [file] = [file for file, names in _FILES.items() if name in names.split()]
    [goal] = [goal for goal in import_module(f"reliability.{file}").GOALS if goal.name == name]
    return goal


def upper_bound(failures: int, trials: int, confidence: float = 0.95) -> float:
    """The rate of failures that is not exceeded, with this confidence: one-sided Clopper-Pearson.

    Without a failure it is 1 - 0.05 ** (1 / n), which is about 3 / n.
    """
    from scipy.stats import binomtest

    interval = binomtest(failures, trials, alternative="less").proportion_ci(confidence, "exact")
    return float(interval.high)
