"""What a goal is: a trial that can be repeated by its number, and how many of them are made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from reliability.subjects import Subject

Trial = Callable[[int, Subject], None]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A figure to hold.

    Attributes:
        name: its name in the table, `R1`.
        title: what must not happen, or must always.
        trial: `(number, subject)`; raises when the goal is missed. The number decides all that is random.
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


def upper_bound(failures: int, trials: int, confidence: float = 0.95) -> float:
    """The rate of failures that is not exceeded, with this confidence: one-sided Clopper-Pearson.

    Without a failure it is 1 - 0.05 ** (1 / n), which is about 3 / n.
    """
    if failures >= trials:
        return 1.0
    low, high = failures / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        too_likely = _at_most(failures, trials, middle) > 1 - confidence
        low, high = (middle, high) if too_likely else (low, middle)
    return high


def _at_most(failures: int, trials: int, rate: float) -> float:
    """How likely so few failures are at this rate."""
    if rate in (0.0, 1.0):
        return 1.0 - rate
    ways = (
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        for k in range(failures + 1)
    )
    logs = [way + k * math.log(rate) + (trials - k) * math.log1p(-rate) for k, way in enumerate(ways)]
    return math.fsum(math.exp(log) for log in logs)
