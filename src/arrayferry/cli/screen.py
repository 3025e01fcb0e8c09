"""What a command shows: tables on stdout and progress on stderr, or JSON alone; and errors in one line."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from arrayferry.errors import FerryError, UnknownFrameworkError


@dataclass(frozen=True)
class Outcome:
    """What a command found, for people and for machines; and whether all is well, for the exit code."""

    shown: Sequence[RenderableType]
    data: dict[str, Any]
    ok: bool = True


def show(outcome: Outcome, *, as_json: bool) -> None:
    """Print an outcome; with colours only in a terminal."""
    if as_json:
        print(json.dumps(outcome.data, indent=1))
    else:
        console = Console(highlight=False)
        for thing in outcome.shown:
            console.print(thing)
    sys.stdout.flush()  # so that a closed pipe is noticed here


def progress() -> Progress:
    """Return progress bars, shown in a terminal while a `with` statement works; see `rich.progress`."""
    console = Console(highlight=False, stderr=True)
    console.quiet = not console.is_terminal  # older versions end even a disabled bar with a newline
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    return Progress(*columns, console=console, transient=True, disable=console.quiet)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what is printed to stderr, even by C code and child processes, which know only the descriptor."""
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


def one_line(error: Exception) -> str:
    """Return an error as one line: where, what, and what to do."""
    text = f"{type(error).__name__}: {error}; --traceback shows where"
    if isinstance(error, FerryError):
        # What comes after the names of frameworks is for programs.
        hint = error.hint.partition(";")[0] if isinstance(error, UnknownFrameworkError) else error.hint
        text = (error.where and f"{error.where}: ") + error.what
        text = f"{text.rstrip('.')}; {hint}" if hint else text
    return " ".join(text.split())
