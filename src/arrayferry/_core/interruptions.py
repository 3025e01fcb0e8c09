"""Tell errors about a value from those that happen to come up while it is converted.

What a key, a container or a hook raises is about the value, and is told with its path. What a signal handler,
a tracer or another thread raises in the middle of it is not, and passes as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from traceback import walk_tb
from typing import Any

# What a framework's or a container's own code raises when it cannot do something.
REFUSALS = (
    *(ArithmeticError, AssertionError, AttributeError, BufferError),
    *(LookupError, RuntimeError, TypeError, ValueError),
)


def is_interruption(error: BaseException) -> bool:
    """Return whether an error is not about the value that was being converted when it was raised."""
    if isinstance(error, (MemoryError, RecursionError, Warning)) or is_from_handler(error):
        return True
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    name = str(frames[-1].f_globals.get("__name__")) if frames else ""
    # An error of another kind that comes from our own code was raised into it by another thread.
    return name.partition(".")[0] == "arrayferry" and not isinstance(error, REFUSALS)


def is_from_handler(error: BaseException) -> bool:
    """Return whether an error was raised by a signal handler or a trace function.

    The interpreter calls them with the frame that it interrupts for them, and nobody else does that.
    """
    for frame, _ in walk_tb(error.__traceback__):
        code, interrupted = frame.f_code, frame.f_back
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 1]  # the last may be `*args`
        for argument in (frame.f_locals.get(name) for name in names):
            candidates = argument if type(argument) is tuple else (argument,)
            if interrupted is not None and any(candidate is interrupted for candidate in candidates):
                return True
    return False


class ignore_errors(AbstractContextManager[None]):
    """A context that ends at any exception without raising it, unless it comes from a signal handler."""

    def __exit__(self, cls: Any, error: BaseException | None, traceback: Any) -> bool:
        return isinstance(error, Exception) and not is_from_handler(error)


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function of somebody else, which may raise anything: None if it does."""
    with ignore_errors():
        return function(*arguments, **options)
    return None


def describe_error(error: Exception) -> str:
    """Return the type of an error, and its message if that can be read."""
    with ignore_errors():  # of `__str__`, which must not replace the error that is reported
        return f"{type(error).__name__}: {error}"
    return type(error).__name__
