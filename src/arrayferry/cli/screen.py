"""What a command shows: tables or JSON on stdout; what it is doing, and errors in one line, on stderr."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from typing import Any, NamedTuple

from rich.console import Console, RenderableType
from rich.markup import escape

from arrayferry.errors import FerryError, UnknownFrameworkError


class Outcome(NamedTuple):
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


def status(text: str) -> AbstractContextManager[Any]:
    """Show what is being done, in a terminal, while a `with` statement does it."""
    return Console(stderr=True).status(escape(text))


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
