"""R25, R26, R27: workers whose driver is interrupted, lets go of them, or loses them."""

from __future__ import annotations

import random
import signal
from functools import cache
from itertools import product
from typing import Any

from reliability.goals import Goal
from reliability.libraries import Library
from scale import endings, interrupts, successors

MODES = [interrupts.NEXT_STEP, interrupts.SAME_STEP, interrupts.DISABLED]
# Up to how many lines of the driver a call runs; where it runs fewer, the last trials interrupt nothing.
LINES = dict.fromkeys(interrupts.CALLS, 320) | {"masked reset": 180, "step": 250, "get_attr": 270}
LINES_IF_DEAD = LINES | {"step": 560, "reset": 580, "masked reset": 590}
PLACES = [
    (mode, call, is_dead, line)
    for mode, call, is_dead in product(MODES, interrupts.CALLS, [False, True])
    # Only a step or a reset that finds a worker dead runs other lines in another mode.
    if mode is interrupts.NEXT_STEP or (is_dead and call in ("step", "reset", "masked reset"))
    for line in range(1, (LINES_IF_DEAD if is_dead else LINES)[call] + 1)
]
random.Random(0).shuffle(PLACES)  # the first few are from all over
SIGNALS = [[signal.SIGINT], [signal.SIGINT] * 2, [signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]]
ENDINGS = list(product(endings.CONTEXTS, endings.ENDINGS))


@cache
def envs_of(mode: Any) -> Any:
    return interrupts.make(mode)


def is_never_stale(number: int, library: Library) -> None:
    """Interrupt a call at a line, or now and then by signals; then compare with `SyncVectorEnv`."""
    mode, call, is_dead, line = PLACES[number]
    interrupts.interrupt_at(envs_of(mode), call, is_dead, line)
    if number % 40 == 20:
        interrupts.interrupt_making(line)
        interrupts.interrupt_closing(line)
    if number % 40 == 0:
        chance = random.Random(number)
        numbers = chance.choice(SIGNALS)
        gaps = [chance.uniform(0.0005, 0.012) for _ in numbers]
        interrupts.interrupt_by_signals(envs_of(mode), numbers, gaps, number)


def leaves_nothing(number: int, library: Library) -> None:
    """Let go of workers in one of the ways, and look whether they are alive."""
    context, ending = ENDINGS[number % len(ENDINGS)]
    endings.run(ending, context)


def has_what_was_set(number: int, library: Library) -> None:
    """Lose a worker, ask its successor, and compare with `SyncVectorEnv`."""
    successors.CASES[number % len(successors.CASES)]()


GOALS = [
    Goal(
        name="R25",
        title="no row is that of an earlier request, wherever the driver is interrupted",
        trial=is_never_stale,
        unit=f"an exception at one line of one of {len(interrupts.CALLS)} calls, or a signal in one",
        full=len(PLACES),
        thin=25,
        sampled=False,
        isolated=True,
    ),
    Goal(
        name="R26",
        title="no worker outlives its vector environment or its program",
        trial=leaves_nothing,
        unit=f"one of {len(ENDINGS)} programs that end without close(), or close in the middle of a step",
        full=2 * len(ENDINGS),
        thin=4,
        isolated=True,
    ),
    Goal(
        name="R27",
        title="a successor has the seeds, options and attributes that the caller has set",
        trial=has_what_was_set,
        unit=f"one of {len(successors.CASES)} kinds of requests to a worker that was lost",
        full=2 * len(successors.CASES),
        thin=8,
        isolated=True,
    ),
]
