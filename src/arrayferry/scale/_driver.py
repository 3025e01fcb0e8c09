"""The driver's side of a worker, whatever it runs in."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from gymnasium import error as gymnasium_errors

from arrayferry._core.messages import note_on, warn_caller
from arrayferry.errors import UnsupportedError
from arrayferry.scale._arguments import check_spaces
from arrayferry.scale._block import Block, copy_into
from arrayferry.scale._pickling import Failure, dumps_by_value

if TYPE_CHECKING:
    from gymnasium import spaces

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
    IDLE = "has answered all requests"
    BUSY = "anything else; between two calls of the user: something was interrupted"


class Worker(ABC):
    """The driver's side of a worker, which steps the environments of some rows.

    A worker is *fresh* when it has replaced another, and its environments have had no episode yet.
    """

    block: Block
    """Its rows of the block."""

    def __init__(self, rows: slice) -> None:
        self.rows, self.successors, self.faults_in_a_row = rows, 0, 0
        self.state, self.is_fresh, self.is_closed = State.DEAD, False, False
        self.reason = "the worker was not started"  # why it is dead
        self.attributes: dict[AttributeKey, bytes] = {}  # set by the caller, in this order, as calls
        self.spaces: Sequence[Any] = ()  # that its environments must have
        self.timeout = 0.0  # the seconds to read a request
        self._request: tuple[int, str, bytes | None] = 0, "", None
        # What raised when it was set before the first reset, which some setters need.
        self._unset: dict[AttributeKey, Failure] = {}

    @property
    @abstractmethod
    def start_hint(self) -> str:
        """What to do about a worker that does not start."""

    def attach(self, block: Block) -> None:
        """Take its rows of a block."""
        self.block = block.rows(self.rows)

    def __str__(self) -> str:
        first, last = self.rows.start, self.rows.stop - 1
        return f"environment {first}" if first == last else f"environments {first} to {last}"

    # ---- its life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it; the first answer waits for it. Raise if the environments were closed in the meantime."""
        self.state = State.BUSY
        if not self.is_closed:
            self.launch()
        if self.is_closed:  # by another thread, or by a signal handler: perhaps before there was a process
            self.stop("the environments are closed")
            raise ClosedError("the environments are closed", "make new ones")
        self.state = State.STARTING

    def replace(self) -> None:
        """Start its successor, which knows nothing of what was asked before."""
        self.state, self.is_fresh, self._unset = State.BUSY, True, {}
        self.successors += 1
        self.kill()
        self.start()

    def stop(self, reason: str) -> None:
        """End it immediately, and remember why."""
        self.state = State.BUSY
        self.kill()
        self.state, self.reason = State.DEAD, reason

    @abstractmethod
    def launch(self) -> None:
        """Start whatever it runs in, and do not wait for it."""

    @abstractmethod
    def wait_until_ready(self) -> Any:
        """Wait for the environments: return their `Description`, a `Failure`, or why there are none."""

    def set_up(self) -> Any:
        """Give it what it needs, once its environments are made; return None, or why it cannot have it."""
        return None

    @abstractmethod
    def kill(self) -> None:
        """End what it runs in, immediately, in whatever state it is."""

    # ---- requests and answers --------------------------------------------------------------------------

    def pack(self, name: str, /, *arguments: Any, **options: Any) -> bytes:
        """Return a method call as bytes; pickled like env_fns, so that a script's classes are the same."""
        return dumps_by_value((name, arguments, options))

    def attributes_with(self, name: str, indices: Sequence[int], call: bytes) -> dict[AttributeKey, bytes]:
        """Return the attributes with one more; what it sets again is left out."""
        key = name, tuple(indices)
        return {**{other: self.attributes[other] for other in self.attributes if other != key}, key: call}

    def ask(self, half: int, name: str, call: bytes | None = None) -> None:
        """Ask for a method call; without one, for a step with the actions in the block.

        While the worker starts, the request waits: it would be too early to write a large one.
        """
        self._request = half, name, call
        if self.state is State.IDLE:
            self.state = State.BUSY
            self.send(half, name, call)

    def answer(self, deadline: float) -> Any:
        """Wait for the answer: what is not in the block, or None; a `Failure`; or why there is no answer."""
        if self.state is State.DEAD:
            return self.reason
        timeout = deadline - time.monotonic()
        if self.state is State.STARTING:  # which has its own timeout
            self.state = State.BUSY
            if (failure := self._prepare(timeout)) is not None:
                return failure
            self.send(*self._request)
            deadline = time.monotonic() + timeout
        answer = self.reply(deadline)
        if self._unset and self._request[1] == "reset" and not isinstance(answer, (Failure, str)):
            answer = self._set_attributes(self._unset, timeout) or self._refusal() or answer
        if not isinstance(answer, str):
            self.state = State.IDLE
        return answer

    def _prepare(self, timeout: float) -> Any:
        """Wait for a successor, and set what the caller had set; return a `Failure`, or why there is none."""
        found = self.wait_until_ready()
        if isinstance(found, Description):
            check_spaces(self.rows.start, found, self.spaces)
            return self.set_up() or self._set_attributes(self.attributes, timeout)
        if isinstance(found, Failure):
            self.stop("the environments of the worker could not be made")
        return found

    def _set_attributes(self, names: Iterable[AttributeKey], timeout: float) -> str | None:
        """Set what the caller had set, and remember what raised; return why there is no answer, or None."""
        unset = {}
        for key in [key for key in names if key in self.attributes]:
            self.send(0, "set_attr", self.attributes[key])
            answer = self.reply(time.monotonic() + timeout)
            if isinstance(answer, str):
                return answer
            if isinstance(answer, Failure):
                unset[key] = answer
        self._unset = unset
        return None

    def _refusal(self) -> Failure | None:
        """Return what a setter has raised even after a reset; later successors are spared it."""
        for (name, _), failure in self._unset.items():
            note_on(failure.error, f"from set_attr({name!r}, ...), repeated once in a new worker of {self}")
            self.attributes = {key: self.attributes[key] for key in self.attributes if key not in self._unset}
            self._unset = {}
            return failure
        return None

    @abstractmethod
    def send(self, half: int, name: str, call: bytes | None) -> None:
        """Send a request to a worker that has started; if it is dead, `reply` says so."""

    @abstractmethod
    def reply(self, deadline: float) -> Any:
        """Wait as `answer` does, for a worker that has started and was sent a request."""

    def show_last(self, half: int) -> None:
        """Show the last observations again, in one half of the block."""
        copy_into(self.block.observations[half], self.block.observations[half ^ 1])

    @abstractmethod
    def end(self, deadline: float) -> None:
        """Wait until a worker that was sent a request to close has ended; `kill` comes next."""


def warn_of_failure(found: Any) -> None:
    """Warn of what an environment raised when it was closed: `close` itself always returns."""
    if isinstance(found, Failure):
        message = "".join(traceback.format_exception_only(found.error))
        warn_caller(f"an environment was not closed: {message}", RuntimeWarning)
