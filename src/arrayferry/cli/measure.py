"""Fair timing on a noisy machine: rivals take turns, and the fastest time of each counts.

What else runs on a machine only ever adds to a time, so the least is nearest to the truth; and taking
turns lets no rival alone have the machine's good moments.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

__all__ = ["lap", "measure", "replay"]

Step = Callable[[], Any]
Trip = Callable[[int], "list[float]"]

_FEWEST, _MOST = 8, 512  # steps of a trip


def measure(
    steps: Mapping[str, Step],
    laps: int = 30,
    seconds: float = 0.01,
    after_lap: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """The best lap of each, in seconds a step.

    Args:
        steps: what to measure, by name.
        laps: how many turns each takes.
        seconds: about how long a turn is.
        after_lap: called after each turn of one of them, for progress bars.

    >>> sorted(measure({"nothing": lambda: None, "something": lambda: sum(range(999))}, laps=2))
    ['nothing', 'something']
    """
    for step in steps.values():
        lap(step, seconds)  # to warm up: compiled, cached, imported
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(laps):
        for name, step in steps.items():
            best[name] = min(best[name], lap(step, seconds))
            after_lap()
    return best


def replay(
    trips: Mapping[str, Trip],
    laps: int = 30,
    seconds: float = 0.02,
    after_lap: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """The seconds of a step of each, where steps differ but come again in every trip: the best of each step.

    Args:
        trips: given a number of steps, takes them from the start, and tells the seconds of each.
        laps: how many trips each makes.
        seconds: about how long a trip is.
        after_lap: called after each trip of one of them.
    """
    first = max(sum(trip(_FEWEST)) for trip in trips.values()) / _FEWEST
    steps = int(min(_MOST, max(_FEWEST, seconds / first)))
    best = {name: [float("inf")] * steps for name in trips}
    for _ in range(laps):
        for name, trip in trips.items():
            best[name] = [min(pair) for pair in zip(best[name], trip(steps))]
            after_lap()
    return {name: sum(times) / steps for name, times in best.items()}


def lap(step: Step, seconds: float) -> float:
    """Seconds a step, over about that many seconds and at least one step."""
    count, batch, spent = 0, 1, 0.0
    collects = gc.isenabled()
    gc.disable()  # it takes long where much is imported, and would hit one rival by chance
    try:
        start = perf_counter()
        while spent < seconds:
            for _ in range(batch):
                step()
            count += batch
            spent = perf_counter() - start
            batch = min(64, 2 * batch)  # so that looking at the clock does not count
    finally:
        if collects:
            gc.enable()
    return spent / count
