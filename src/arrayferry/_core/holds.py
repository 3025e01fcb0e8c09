"""What work on devices still reads, kept alive until that work is done: nobody waits for it.

A framework frees memory in the order of its own streams. What another stream or framework still has to read
would be gone by then, so it is held here until the event of the step has passed.
"""

from __future__ import annotations

import atexit
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any, TypeAlias

# Records an event on a device's current stream; returns whether it has passed, and how to wait for it.
Record: TypeAlias = "Callable[[Any], tuple[Callable[[], bool], Callable[[], Any]]]"

# The most steps that a device may be behind. Then the oldest is waited for, so that memory does not run out.
MOST = 64


class Hold:
    """Objects that are needed until some work is done.

    Args:
        is_done: `()` to whether the work is done.
        synchronize: waits until it is.
        objects: what is kept alive.
    """

    def __init__(self, is_done: Callable[[], bool], synchronize: Callable[[], Any], objects: Any) -> None:
        self.is_done, self.synchronize, self._objects = is_done, synchronize, objects


# In the order of the steps. Each operation on it is atomic, as several threads may step environments.
_holds: dict[Hold, None] = {}


def hold(is_done: Callable[[], bool], synchronize: Callable[[], Any], objects: Any) -> None:
    """Keep objects alive until some work is done, and drop those whose work is."""
    _clear_at_exit()
    for oldest in [*_holds]:
        if not oldest.is_done():
            if len(_holds) < MOST:
                break
            oldest.synchronize()
        _holds.pop(oldest, None)
    _holds[Hold(is_done, synchronize, objects)] = None


def hold_sources(tasks: Iterable[tuple[Record, Any, Any]]) -> None:
    """Hold what copies read, by one event for each device: the `finish` of a `Deferred` copy.

    Args:
        tasks: of each copy, how an event is recorded, the device, and what the copy reads.
    """
    sources = defaultdict(list)
    for record, device, source in tasks:
        sources[record, device].append(source)
    for (record, device), objects in sources.items():
        is_done, synchronize = record(device)
        hold(is_done, synchronize, objects)


def release() -> None:
    """Wait for all work, and drop what was held for it: at the end of an environment."""
    for pending in [*_holds]:
        with suppress(RuntimeError):  # of a device that is lost, no work is left
            if not pending.is_done():
                pending.synchronize()
        _holds.pop(pending, None)


@cache
def _clear_at_exit() -> None:
    # Registered after the frameworks are imported, so that it runs before they are torn down.
    atexit.register(_holds.clear)
