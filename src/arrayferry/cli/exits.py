"""How a command ends: the exit codes, and errors in one line."""

from __future__ import annotations

from arrayferry.errors import (
    DeviceError,
    FerryError,
    NotInstalledError,
    OptionError,
    UnknownFrameworkError,
)

__all__ = ["EXIT_CODES", "FINE", "FOUND", "USAGE", "UsageError", "code_of", "one_line"]

FINE, FOUND, USAGE = 0, 1, 2  # and 130, for Ctrl-C

EXIT_CODES = """\
exit codes:
  0    fine
  1    a finding, a refused leaf, or something failed on the way
  2    wrong usage, or something that it needs is not installed
  130  stopped with Ctrl-C"""

_MISUSE = (UnknownFrameworkError, NotInstalledError, DeviceError, OptionError)


class UsageError(Exception):
    """The user asked for something that there is not; the message is one line that says what to do."""


def code_of(error: Exception) -> int:
    """The exit code that an error means."""
    return USAGE if isinstance(error, (UsageError, *_MISUSE)) else FOUND


def one_line(error: Exception) -> str:
    """An error as one line: where, what, and what to do."""
    if isinstance(error, FerryError):
        place = f"{error.where}: " if error.where else ""
        return " ".join(f"{place}{error.what}{f'; {error.hint}' if error.hint else ''}".split())
    text = " ".join(str(error).split())
    if isinstance(error, UsageError):
        return text
    return f"{type(error).__name__}: {text}; --traceback shows where"
