"""What a command shows: tables on stdout and progress on stderr, or JSON alone."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["Outcome", "Screen", "stdout_to_stderr", "table"]


@dataclass(frozen=True)
class Outcome:
    """What a command found, for people and for machines; and whether all is well, for the exit code."""

    shown: Sequence[RenderableType]
    data: dict[str, Any]
    ok: bool = True


class Screen:
    """Where outcomes and progress go; colours and progress appear only in a terminal."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._out = Console(highlight=False)
        self._err = Console(highlight=False, stderr=True)

    def report(self, outcome: Outcome) -> None:
        """Print an outcome."""
        if self._as_json:
            print(json.dumps(outcome.data, indent=1))
        else:
            for thing in outcome.shown:
                self._out.print(thing)
        sys.stdout.flush()  # so that a closed pipe is noticed here

    def progress(self) -> Progress:
        """Return progress bars, to be shown while a `with` statement works; see `rich.progress`."""
        columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
        return Progress(*columns, console=self._err, transient=True, disable=not self._err.is_terminal)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what is printed to stderr, also by C code and child processes, which know only the descriptor."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdout.flush()
        if os.name == "posix":
            ctypes.CDLL(None).fflush(None)  # what C code has printed so far waits in its own buffer
        os.dup2(stdout, 1)
        os.close(stdout)


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of rich's markup. A head that starts with `>` aligns right. Only the last column wraps.

    rich shrinks every column that wraps, and breaks words to do so.
    """
    title = escape(title)
    made = Table(title=title or None, title_justify="left", title_style="bold", box=None, padding=(0, 1))
    for head in heads:
        right = head.startswith(">")
        made.add_column(head.removeprefix(">"), justify="right" if right else "left", no_wrap=True)
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    for row in rows:
        made.add_row(*row)
    return made
