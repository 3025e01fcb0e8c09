"""Fair timing on a noisy machine: rivals take turns, and the fastest time of each counts.

Other processes only ever add to a time, so the minimum is closest to the truth; and as they take turns, no
rival has the quiet moments of the machine to itself.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

Step = Callable[[], Any]


def measure(
    steps: Mapping[str, Step],
    laps: int = 30,
    seconds: float = 0.01,
) -> dict[str, float]:
    """Return the best lap of each, in seconds a step.

    Args:
        steps: what to measure, by name.
        laps: the number of turns that each takes.
        seconds: about how long a turn takes.

    >>> sorted(measure({"nothing": lambda: None, "something": lambda: sum(range(999))}, laps=2))
    ['nothing', 'something']
    """
    return {name: min(times) for name, times in measure_laps(steps, laps, seconds).items()}


def measure_laps(steps: Mapping[str, Step], laps: int, seconds: float) -> dict[str, list[float]]:
    """Return the seconds a step of each lap of each."""
    for step in steps.values():
        lap(step, seconds)  # to warm up: compile, import, fill caches
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(laps):
        for name, step in steps.items():
            times[name].append(lap(step, seconds))
    return times


def lap(step: Step, seconds: float) -> float:
    """Return the seconds a step, averaged over about `seconds` and at least one step."""
    count, batch, spent = 0, 1, 0.0
    collects = gc.isenabled()
    gc.disable()  # a collection takes long after many imports, and would hit one rival by chance
    try:
        start = perf_counter()
        while spent < seconds:
            for _ in range(batch):
                step()
            count += batch
            spent = perf_counter() - start
            batch = min(64, 2 * batch)  # so that reading the clock does not count
    finally:
        if collects:
            gc.enable()
    return spent / count
