"""R6: memory does not grow with the number of conversions."""

from __future__ import annotations

import gc
import sys

import numpy as np
import psutil

from reliability.goals import Goal
from reliability.libraries import Library
from reliability.values import ROUTES, made_in

MEGABYTE = 1 << 20
SAMPLES = 10


def memory_stays(number: int, library: Library) -> None:
    """The first six trials are short, the others are the figure."""
    source, target = ROUTES[number % len(ROUTES)]
    conversions = 10_000 if number < len(ROUTES) else 100_000
    value = {"x": made_in(source, np.arange(256, dtype="float32"))}
    process, sizes = psutil.Process(), []

    def work(times: int) -> None:
        for _ in range(times):
            library.convert(value, target)

    work(conversions // 5)  # until all caches are filled
    gc.collect()
    references = sys.getrefcount(value["x"])
    for _ in range(SAMPLES):
        work(conversions // SAMPLES)
        sizes.append(process.memory_info().rss)
    gc.collect()
    added = sys.getrefcount(value["x"]) - references
    assert not added, f"{source} to {target}: {added} references more"
    # The lowest of each half: what is released a little later is no leak.
    grown = min(sizes[SAMPLES // 2 :]) - min(sizes[: SAMPLES // 2])
    assert grown <= MEGABYTE, f"{source} to {target}: {grown} bytes more"


GOALS = [
    Goal(
        name="R6",
        title="no leak: at most 1 MB and no reference more",
        trial=memory_stays,
        unit="100,000 conversions (10,000 in the first 6 trials) on one of 6 routes",
        full=12,
        thin=6,
        peer=12,
        sampled=False,
        isolated=True,
    )
]
