"""Requests to workers, in the order of their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from arrayferry.scale._block import index_of

if TYPE_CHECKING:
    from arrayferry.scale._driver import Worker

__all__ = ["Kind", "Request", "Reset"]


class Kind(Enum):
    """What a request is for, which decides what happens if it is lost with its worker."""

    STEP = auto()  # there is a fault
    RESET = auto()  # a successor is asked again
    CALL = auto()  # the caller is told
    SET = auto()  # an attribute of a successor, which the next successor is told anyway


class Reset(NamedTuple):
    """What the caller of a reset asks for: a seed for each environment, and options."""

    seeds: Sequence[int | None]
    options: dict[str, Any] | None = None


class Request:
    """Something that a worker is to do with some of its environments.

    Args:
        worker: who does it.
        rows: the environments, as rows of the block.
        kind: what it is for.
        call: a method call, pickled; None for a step with the actions in the block.
        detail: what the caller of a reset asks for, or the attribute that is set.
        is_reset: whether it resets the environments.

    Attributes:
        index: what to index an array with, to set what belongs to the rows.
        number: counts the requests to this worker and those that it has replaced, when it is sent.
        result: what a method call has returned, a `Failure`, or why there is no answer.
    """

    __slots__ = ("call", "detail", "index", "is_reset", "kind", "number", "result", "rows", "worker")

    def __init__(
        self,
        worker: Worker,
        rows: Sequence[int],
        kind: Kind,
        call: bytes | None = None,
        detail: Any = None,
        is_reset: bool = False,
    ) -> None:
        self.worker, self.rows, self.kind, self.call = worker, rows, kind, call
        self.detail, self.is_reset, self.number = detail, is_reset, 0
        self.result: Any = None
        self.index = rows[0] if len(rows) == 1 else index_of(rows)

    @property
    def places(self) -> list[int]:
        """The environments, as the worker counts them."""
        start = self.worker.rows.start
        return [row - start for row in self.rows]
