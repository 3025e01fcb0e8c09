"""The driver's side of a worker, whatever it runs in."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from gymnasium import error as gymnasium_errors

from arrayferry._core.messages import note_on, warn_caller
from arrayferry.errors import UnsupportedError
from arrayferry.scale._arguments import check_spaces
from arrayferry.scale._pickling import Failure, dumps_by_value
from arrayferry.scale._requests import Kind, Request

if TYPE_CHECKING:
    from gymnasium import spaces

    from arrayferry.scale._block import Block

# The name of an attribute, and the environments of a worker in which it is set.
AttributeKey = tuple[str, tuple[int, ...]]

__all__ = ["ClosedError", "Description", "State", "Worker", "warn_of_failure"]


class ClosedError(UnsupportedError, gymnasium_errors.ClosedEnvironmentError):
    """What Gymnasium's users expect from closed environments."""


class Description(NamedTuple):
    """What a worker says about its environments, which have the same spaces."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None


class State(Enum):
    """What is certain about a worker.

    It is recorded before something is done, so that it is true whatever interrupts the driver.
    """

    DEAD = "not started, or killed"
    STARTING = "makes its environments"
    READY = "takes requests"
    BUSY = "anything else; between two calls of the user: something was interrupted"


class Worker(ABC):
    """The driver's side of a worker, which steps the environments of some rows.

    Attributes:
        requests: what it was asked and has not answered, in this order.
        waiting: the last ones of these, which were not sent yet: while it starts, it would be too early to
            write a large one; and while it answers others, it might be writing, too.
        attributes: what the caller has set, in this order, as method calls.
    """

    block: Block
    spaces: Sequence[Any] = ()  # that its environments must have
    timeout = restart_timeout = 0.0  # the seconds to answer, and to start

    def __init__(self, rows: slice) -> None:
        self.rows, self.successors = rows, 0
        self.state, self.is_closed = State.DEAD, False
        self.since = 0.0  # when it was started, or asked, or answered
        self.loss = ""  # why it will not answer, if that is known already
        self.requests, self.waiting = deque[Request](), deque[Request]()
        self.attributes: dict[AttributeKey, bytes] = {}
        # What raised when it was set before the first reset, which some setters need.
        self._unset: dict[AttributeKey, set[int]] = {}

    @property
    @abstractmethod
    def start_hint(self) -> str:
        """What to do about a worker that does not start."""

    def __str__(self) -> str:
        first, last = self.rows.start, self.rows.stop - 1
        return f"environment {first}" if first == last else f"environments {first} to {last}"

    @property
    def is_in_doubt(self) -> bool:
        """Whether it has something to do, or the driver was interrupted when it dealt with it."""
        return self.state is State.BUSY or bool(self.requests)

    # ---- its life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it. Raise if the environments were closed in the meantime."""
        self.state = State.BUSY
        if not self.is_closed:
            self.launch()
        if self.is_closed:  # by another thread, or by a signal handler: perhaps before there was a process
            self.stop()
            raise ClosedError("the environments are closed", "make new ones")
        self.state, self.since = State.STARTING, time.monotonic()

    def replace(self) -> None:
        """Start its successor, which knows nothing of what was asked before."""
        self.state = State.BUSY
        self.successors += 1
        self.kill()
        self.requests.clear()
        self.waiting.clear()
        self._unset, self.loss = {}, ""
        self.start()

    def stop(self) -> None:
        """End it immediately."""
        self.state = State.BUSY
        self.kill()
        self.state = State.DEAD

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

    def pack(self, name: str, /, *arguments: Any, **options: Any) -> bytes:
        """Return a method call as bytes; pickled like env_fns, so that a script's classes are the same."""
        return dumps_by_value((name, arguments, options))

    def pack_step(self, rows: Sequence[int], actions: Any) -> bytes:
        """Return a step with actions that do not go through the block, as bytes."""
        return self.pack("step", [row - self.rows.start for row in rows], actions)

    def ask(self, request: Request) -> None:
        """Send a request, now or when the worker can take it."""
        self.requests.append(request)
        if self.waiting or not self._can_send(request, len(self.requests) - 1):
            self.waiting.append(request)
        else:
            self._send_now(request)

    def send_waiting(self) -> None:
        """Send the requests that wait, as far as the worker can take them."""
        while self.waiting and self._can_send(self.waiting[0], len(self.requests) - len(self.waiting)):
            self._send_now(self.waiting.popleft())

    def _can_send(self, request: Request, sent: int) -> bool:
        return self.state is State.READY and (request.call is None or not sent)

    def _send_now(self, request: Request) -> None:
        self.state, self.since = State.BUSY, time.monotonic()
        self.send(request)
        self.state = State.READY

    @abstractmethod
    def send(self, request: Request) -> None:
        """Send a request to a worker that has started; if it is dead, `trouble` says so."""

    @abstractmethod
    def read(self, request: Request) -> Any:
        """Return the rest of an answer: `Answers`, a call's result, a `Failure`; or why it is lost."""

    def finish(self) -> Request | None:
        """Take the first of its requests, which it has answered; None if that was cut off, and it is lost."""
        self.state = State.BUSY
        request = self.requests[0]
        request.result = self.read(request)
        if isinstance(request.result, str):
            self.loss, self.state = request.result, State.READY
            return None
        self.requests.popleft()
        self.state, self.since = State.READY, time.monotonic()
        if request.kind is Kind.SET or (self._unset and request.is_reset):
            self._finish_setting(request)
        if self.waiting:
            self.send_waiting()
        return request

    def close(self) -> None:
        """Ask it to close its environments, after what it was sent before."""
        self.state = State.BUSY
        self.send(Request(self, [self.rows.start], Kind.CALL, self.pack("close")))

    @abstractmethod
    def trouble(self, now: float) -> str | None:
        """Return why a worker that has started will not answer, if that is certain or it is too late."""

    def look_after(self, now: float) -> Any:
        """Return why there will be no answer, a `Failure` when its environments were made, or None."""
        if self.state is not State.STARTING:
            return self.loss or self.trouble(now)
        if not self.has_started() and now - self.since < self.restart_timeout:
            return None
        description = self.wait_until_ready(0)
        if isinstance(description, Description):
            check_spaces(self.rows.start, description, self.spaces)
            self.state = State.READY
            self._set(self.attributes.items())
        elif isinstance(description, Failure):
            self.stop()
        return None if isinstance(description, Description) else description

    # ---- attributes that the caller has set ------------------------------------------------------------

    def attributes_with(self, name: str, indices: Sequence[int], call: bytes) -> dict[AttributeKey, bytes]:
        """Return the attributes with one more; what it sets again is left out."""
        key = name, tuple(indices)
        return {**{other: self.attributes[other] for other in self.attributes if other != key}, key: call}

    def _set(self, calls: Iterable[tuple[AttributeKey, bytes]], is_last: bool = False) -> None:
        """Set attributes before anything else."""
        rows = [self.rows.start]
        requests = [Request(self, rows, Kind.SET, call, (key, is_last)) for key, call in calls]
        sent = len(self.requests) - len(self.waiting)
        self.requests = deque([*self.requests][:sent] + requests + [*self.waiting])
        self.waiting.extendleft(reversed(requests))
        self.send_waiting()

    def _finish_setting(self, request: Request) -> None:
        """Remember what raised when it was set, and set it again after a reset; raise only then."""
        if request.is_reset and not isinstance(request.result, Failure):
            again = []
            for key, places in self._unset.items():
                if now := [place for place in places if place in request.places]:
                    again.append((key, self.pack("set_again", self.attributes[key], now)))
                    places -= set(now)
            self._set(again, is_last=True)
        elif request.kind is Kind.SET and isinstance(request.result, Failure):
            key, is_last = request.detail
            if is_last:  # later successors are spared it
                who = f"repeated once in a new worker of {self}"
                note_on(request.result.error, f"from set_attr({key[0]!r}, ...), {who}")
                self.attributes = {other: self.attributes[other] for other in self.attributes if other != key}
            else:
                self._unset[key] = set(key[1])
                request.result = None


def warn_of_failure(found: Any) -> None:
    """Warn of what an environment raised when it was closed: `close` itself always returns."""
    if isinstance(found, Failure):
        message = "".join(traceback.format_exception_only(found.error))
        warn_caller(f"an environment was not closed: {message}", RuntimeWarning)
