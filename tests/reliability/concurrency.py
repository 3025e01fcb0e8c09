"""R2, R7: JAX reads what it is given later, and threads meet in the middle of everything."""

from __future__ import annotations

import sys
import threading
from functools import cache
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from arrayferry.testing import at_offset
from reliability.goals import Goal
from reliability.libraries import Library
from reliability.values import ROUTES, made_in, raw

# Around the size from which JAX copies in the background, and the sizes of observations.
SIZES = [16, 4_096, 28_224, 102_396, 102_400, 451_584, 1 << 20, 1 << 24]
OFFSETS = [0, 16, 4]
STATES = ["idle", "busy", "pending argument"]
GRID = list(product(["numpy", "torch"], SIZES, OFFSETS, STATES))


@jax.jit
def _learn(x: Any, rounds: Any) -> Any:
    return jax.lax.fori_loop(0, rounds, lambda _, y: jnp.tanh(y @ y), x)


@jax.jit
def _joined(x: Any, pending: Any) -> Any:
    """What waits for its second argument, and has the first as its value."""
    return jnp.where(jnp.isnan(pending[0, 0]), jnp.nan, x)


@cache
def _weights() -> Any:
    return jnp.ones((256, 256)) / 256


@cache
def _source(framework: str, size: int, offset: int) -> tuple[Any, Any]:
    """Memory that an environment fills, and the array that it hands out."""
    memory = at_offset(np.zeros(size // 4, "float32"), offset)
    return memory, memory if framework == "numpy" else torch.from_numpy(memory)


def is_a_snapshot(number: int, library: Library) -> None:
    """The source is overwritten right after the call; the result has the values from before."""
    framework, size, offset, state = GRID[number % len(GRID)]
    memory, source = _source(framework, size, offset)
    value = float(number + 1)
    for rounds in 20, 80, 320, 1280, 5120:  # until the device was busy all the time
        pending = None if state == "idle" else _learn(_weights(), rounds)
        memory[:] = value
        result = library.convert(source, "jax")
        if state == "pending argument":
            result = _joined(result, pending)
        memory[:] = -1
        if pending is None or not pending.is_ready():
            break
    else:
        raise AssertionError("the device was never busy for long")
    found = np.asarray(result)
    if pending is not None:
        pending.block_until_ready()  # the next trial finds the device idle
    wrong = int((found != value).sum())
    assert not wrong, f"{state}, {framework}, {size} bytes at {offset}: {wrong} of {found.size} elements"


THREADS, CONVERSIONS = 8, 125


def threads_agree(number: int, library: Library) -> None:
    """Eight threads convert at once, one array of their own and one that all have."""
    source, target = ROUTES[number % len(ROUTES)]
    shared = made_in(source, np.arange(64, dtype="float32"))
    start, wrong = threading.Barrier(THREADS), []

    def work(thread: int) -> None:
        own = made_in(source, np.full(16, thread, "int32"))
        start.wait(60)
        for step in range(CONVERSIONS):
            # A new type each time: so that decisions are made while others look them up.
            kind = type("Info", (dict,), {}) if step % 16 == 0 and library.name == "arrayferry" else dict
            result = library.convert(kind(own=own, shared=shared), target)
            if raw(result["own"]) != raw(own) or raw(result["shared"]) != raw(shared):
                wrong.append(f"thread {thread}, conversion {step}")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
    finally:
        sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in threads), f"{source} to {target}: a thread is stuck"
    assert not wrong, f"{source} to {target}: {len(wrong)} wrong, first {wrong[0]}"


GOALS = [
    Goal(
        name="R2",
        title="a result is a snapshot, however busy the device",
        trial=is_a_snapshot,
        unit=f"one of {len(GRID)} cells (2 sources, 8 sizes, 3 alignments; device idle, busy, awaited)",
        full=60 * len(GRID),
        thin=len(GRID),
        peer=5 * len(GRID),
        isolated=True,
    ),
    Goal(
        name="R7",
        title="threads do not disturb each other",
        trial=threads_agree,
        unit=f"{THREADS * CONVERSIONS:,} conversions by {THREADS} threads that switch every 1 us, 6 routes",
        full=10 * len(ROUTES),
        thin=len(ROUTES),
        peer=2 * len(ROUTES),
        isolated=True,
    ),
]
