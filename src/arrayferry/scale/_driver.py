"""The driver's side of a worker, whatever it runs in."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from arrayferry._core.messages import warn_caller
from arrayferry.scale._block import Block, copy_into
from arrayferry.scale._pickling import Failure, dumps_by_value

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["Description", "Worker", "warn_of_failure"]


class Description(NamedTuple):
    """What a vector environment says about its environments."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None

    @classmethod
    def of(cls, env: Any) -> Description:
        """Describe an environment."""
        return cls(env.observation_space, env.action_space, env.metadata, env.render_mode)


class Worker(ABC):
    """The driver's side of a worker, which steps the environments of some rows.

    A worker is *fresh* when it has replaced another, and its environments have had no episode yet. It is
    *busy* while it starts, and from when it is asked something until it has answered. It is *ready* once
    its environments are made.
    """

    start_hint: ClassVar[str]
    """What to do about a worker that does not start."""
    block: Block
    """Its rows of the block."""

    def __init__(self, rows: slice) -> None:
        self.rows, self.faults, self.faults_in_a_row = rows, 0, 0
        self.is_fresh = self.is_busy = self.is_ready = False

    def attach(self, block: Block) -> None:
        """Take its rows of a block."""
        self.block = block.rows(self.rows)

    def __str__(self) -> str:
        first, last = self.rows.start, self.rows.stop - 1
        return f"environment {first}" if first == last else f"environments {first} to {last}"

    @abstractmethod
    def start(self) -> None:
        """Start it, even after it was killed; `wait_until_ready` waits for it."""

    @abstractmethod
    def wait_until_ready(self) -> Any:
        """Wait for the environments: their spaces, perhaps with more; a `Failure`; or why there are none."""

    def pack(self, name: str, /, *arguments: Any, **options: Any) -> bytes:
        """Return a method call as bytes; pickled like env_fns, so that a script's classes are the same."""
        return dumps_by_value((name, arguments, options))

    @abstractmethod
    def ask(self, half: int, name: str, call: bytes | None = None) -> None:
        """Ask for a method call; without one, for a step with the actions in the block."""

    def answer(self, deadline: float) -> Any:
        """Wait for the answer: what is not in the block, or None; a `Failure`; or why there is no answer."""
        if not self.is_ready:  # starting has its own timeout
            waiting = time.monotonic()
            if isinstance(found := self.wait_until_ready(), (Failure, str)):
                return found
            deadline += time.monotonic() - waiting
        return self.reply(deadline)

    @abstractmethod
    def reply(self, deadline: float) -> Any:
        """Wait as `answer` does, for a worker that has started."""

    def show_last(self, half: int) -> None:
        """Show the last observations again, in one half of the block."""
        copy_into(self.block.observations[half], self.block.observations[half ^ 1])

    @abstractmethod
    def request_close(self) -> None:
        """Ask it to close its environments and end."""

    @abstractmethod
    def end(self, deadline: float) -> None:
        """Wait until it has ended, and kill it if it does not."""

    @abstractmethod
    def kill(self) -> None:
        """End it immediately."""


def warn_of_failure(found: Any) -> None:
    """Warn of what an environment raised when it was closed: `close` itself always returns."""
    if isinstance(found, Failure):
        message = "".join(traceback.format_exception_only(found.error))
        warn_caller(f"an environment was not closed: {message}", RuntimeWarning)
