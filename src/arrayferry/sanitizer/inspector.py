"""Looks at what goes in and what comes out, one call after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from arrayferry.sanitizer.leaves import PASSED, Leaf, Reader
from arrayferry.sanitizer.memory import Loans
from arrayferry.sanitizer.notes import Notes
from arrayferry.sanitizer.report import Report
from arrayferry.sanitizer.values import Values
from arrayferry.sanitizer.writes import Writes

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["Inspector"]


class Inspector:
    """Sees both directions of one environment. It reads, and never writes.

    Args:
        shared: whether agent and environment see the same memory: `copy=False`.
        on_finding: `"warn"` or `"raise"`.
        single: whether it is a single environment.
        trusted: the first step in which an array that is held is held by the environment itself.
        steps: for how many steps memory is watched.
        limit: how many bytes are kept for that.
    """

    def __init__(
        self,
        *,
        shared: bool,
        on_finding: Literal["warn", "raise"],
        single: bool,
        trusted: int,
        steps: int,
        limit: int,
    ) -> None:
        self._notes = Notes(on_finding)
        self._reader = Reader()
        self._values = Values(self._notes, single)
        self._writes = Writes(self._notes, shared, trusted, Loans(steps, limit))
        self._seconds, self._watched = 0.0, 0

    def entering(self, box: list[Any], *, is_step: bool = False) -> None:
        """Before the environment is called; the box has the action, if there is one."""
        self._notes.step += is_step
        with self._watching():
            leaves = self._read(box, ("action",), PASSED)
            self._writes.entering(leaves)
            self._values.look_for_nan(leaves)
            del leaves
        self._notes.tell()

    def returned(self, box: list[Any], names: Sequence[str], space: Callable[[], spaces.Space[Any]]) -> None:
        """After the environment was called; the box alone has what it returned."""
        with self._watching():
            leaves = self._read(box, names)
            self._writes.returned(leaves)
            if box:
                self._values.look_at(leaves, box[0], space())
            del leaves
        self._notes.tell()

    def failed(self) -> None:
        """After the environment raised: whatever it wrote until then, nobody is to blame."""
        self._writes.forget()

    def report(self) -> Report:
        """What was found so far, and what it took."""
        return Report(
            findings=self._notes.findings(),
            steps=self._notes.step,
            seconds=self._seconds,
            watched=self._watched,
        )

    def _read(self, box: list[Any], names: Sequence[str], passed: int = 0) -> list[Leaf]:
        leaves = self._reader.read(box, names, passed)
        self._watched += sum(leaf.view.nbytes for leaf in leaves if leaf.owner and leaf.view is not None)
        return leaves

    @contextmanager
    def _watching(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        except Exception as error:  # the environment and its agent shall not notice that they are watched
            message = f"{type(error).__name__}: {error}"
            self._notes.add("unwatched", "info", "sanitizer", message, "please report it, with the value")
        finally:
            self._seconds += time.perf_counter() - start
