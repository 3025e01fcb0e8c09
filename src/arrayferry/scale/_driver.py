"""The driver's side of a worker, whatever it runs in."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from gymnasium import error as gymnasium_errors

from arrayferry._boundary.seeds import successor_seed
from arrayferry._core.messages import warn_caller
from arrayferry.errors import UnsupportedError
from arrayferry.scale._arguments import check_spaces
from arrayferry.scale._pickling import Failure, dumps_by_value
from arrayferry.scale._worker import Description, Task

if TYPE_CHECKING:
    from arrayferry.scale._block import Block

__all__ = ["LATE", "ClosedError", "Kind", "Request", "Worker", "pack", "warn_of_failure"]

LATE = "the worker did not answer in time"


class ClosedError(UnsupportedError, gymnasium_errors.ClosedEnvironmentError):
    """What Gymnasium's users expect from closed environments."""


class Kind(Enum):
    """What a request is for, which decides what happens if it is lost with its worker."""

    STEP = auto()  # there is a fault
    RESET = auto()  # a successor is asked again
    CALL = auto()  # the caller is told


@dataclass(slots=True, eq=False)
class Request:
    """Something that a worker is to do.

    Attributes:
        worker: who does it.
        rows: the environments that answer; the first one of the worker answers a call.
        kind: what it is for.
        call: a method call, pickled; None for a step with the actions in the block.
        number: counts the requests to this worker and those that it has replaced; 0 until it is sent.
        result: what a call has returned, a `Failure`, or why there is no answer.
        missing: how many rows have not answered yet.
    """

    worker: Worker
    rows: Sequence[int]
    kind: Kind
    call: bytes | None = None
    number: int = 0
    result: Any = None
    missing: int = 0


def pack(name: str, /, *arguments: Any, **options: Any) -> bytes:
    """Return a method call as bytes; pickled like env_fns, so that a script's classes are the same."""
    return dumps_by_value((name, arguments, options))


class Worker(ABC):
    """The driver's side of a worker, which steps the environments of some rows.

    Whatever interrupts the driver, `is_in_doubt` or a request that is left tells that something may be under
    way: both are recorded before anything is done.

    Attributes:
        requests: what it was asked and has not answered, in this order.
        attributes: what the caller has set, in this order: method calls, by name and rows.
        loss: why it will not answer, if that is known already.
    """

    block: Block
    spaces: Sequence[Any] = ()  # that its environments must have
    timeout = restart_timeout = 0.0  # the seconds to answer, and to start

    def __init__(self, task: Task) -> None:
        self.task, self.rows, self.successors = task, task.rows, 0
        self.is_ready = self.is_closed = self.is_in_doubt = False
        self.since = 0.0  # when it was started, or asked, or answered
        self.number, self.loss = 0, ""
        self.requests = deque[Request]()
        self.attributes: dict[tuple[str, tuple[int, ...]], bytes] = {}

    def __str__(self) -> str:
        first, last = self.rows[0], self.rows[-1]
        return f"environment {first}" if first == last else f"environments {first} to {last}"

    @property
    @abstractmethod
    def start_hint(self) -> str:
        """What to do about a worker that does not start."""

    # ---- its life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it. Raise if the environments were closed in the meantime."""
        self.is_ready, self.is_in_doubt = False, True
        if not self.is_closed:
            self.launch()
        if self.is_closed:  # by another thread, or by a signal handler: perhaps before there was a process
            self.kill()
            raise ClosedError("the environments are closed", "make new ones")
        self.is_in_doubt, self.since = False, time.monotonic()

    def replace(self, seeds: Sequence[int | None], layer: int) -> None:
        """Start its successor, whose environments have seeds that no other had, and what the caller set.

        Where workers run within workers, each layer has seeds of its own.
        """
        self.is_in_doubt = True
        self.successors += 1
        self.kill()
        self.requests.clear()
        self.loss = ""
        own = {
            row: None if (seed := seeds[row]) is None else successor_seed(seed, row, self.successors, layer)
            for row in self.rows
        }
        self.task = self.task._replace(seeds=own, attributes=[*self.attributes.values()])
        self.start()

    @abstractmethod
    def launch(self) -> None:
        """Start whatever it runs in, and do not wait for it."""

    @abstractmethod
    def has_started(self) -> bool:
        """Return whether `wait_until_ready` returns at once."""

    @abstractmethod
    def wait_until_ready(self, seconds: float) -> Any:
        """Wait for the environments: return their `Description`, a `Failure`, or why there are none."""

    @abstractmethod
    def kill(self) -> None:
        """End what it runs in, immediately, in whatever state it is."""

    @abstractmethod
    def end(self, deadline: float) -> None:
        """Wait until a worker that was sent a request to close has ended; `kill` comes next."""

    # ---- requests and answers --------------------------------------------------------------------------

    def ask(self, request: Request) -> None:
        """Send a request, now or when the worker can take it."""
        self.requests.append(request)
        if len(self.requests) == 1 and self.is_ready:
            self.send_now(request)
        else:
            self.send_waiting()

    def send_waiting(self) -> None:
        """Send the requests that wait, as far as the worker can take them.

        While it starts, it would be too early to write a large one; and while it answers others, it might be
        writing, too.
        """
        for request in self.requests if self.is_ready else ():
            if not request.number:
                if request.call is not None and request is not self.requests[0]:
                    return
                self.send_now(request)

    def send_now(self, request: Request) -> None:
        """Give a request its number, and send it."""
        self.since = time.monotonic()
        self.number = request.number = self.number + 1
        self.send(request)

    @abstractmethod
    def send(self, request: Request) -> None:
        """Send a request to a worker that has started; if it is dead, `trouble` says so."""

    def finish(self, request: Request) -> None:
        """Forget a request, which is answered."""
        self.requests.remove(request)
        if self.requests:
            self.send_waiting()

    def close(self) -> None:
        """Ask it to close its environments, after what it was sent before: rows may still be under way."""
        self.send_now(Request(self, [], Kind.CALL, pack("close")))

    @abstractmethod
    def trouble(self, now: float) -> str | None:
        """Return why a worker that has started will not answer, if that is certain or it is too late."""

    def look_after(self, now: float) -> Any:
        """Return why there will be no answer, a `Failure` when its environments were made, or None."""
        if self.is_ready:
            return self.loss or self.trouble(now)
        if not self.has_started() and now - self.since < self.restart_timeout:
            return None
        description = self.wait_until_ready(0)
        if not isinstance(description, Description):
            return description
        check_spaces(self.rows.start, description, self.spaces)
        self.is_ready = True
        self.send_waiting()
        return None


def warn_of_failure(found: Any) -> None:
    """Warn of what an environment raised when it was closed: `close` itself always returns."""
    if isinstance(found, Failure):
        message = "".join(traceback.format_exception_only(found.error))
        warn_caller(f"an environment was not closed: {message}", RuntimeWarning)
