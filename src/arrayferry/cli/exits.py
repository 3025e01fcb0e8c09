"""How a command ends: the exit codes, and errors in one line."""

from __future__ import annotations

from arrayferry.errors import (
    DeviceError,
    FerryError,
    NotInstalledError,
    OptionError,
    UnknownFrameworkError,
)

__all__ = ["FINE", "FOUND", "USAGE", "UsageError", "code_of", "exit_codes", "one_line"]

FINE, FOUND, USAGE = 0, 1, 2  # and 130 for Ctrl-C

_MISUSE = (UnknownFrameworkError, NotInstalledError, DeviceError, OptionError)


class UsageError(Exception):
    """The user asked for something that does not exist; the message is one line that says what to do."""


def exit_codes(found: str) -> str:
    """Return the exit codes for the help, given when a command exits with 1."""
    return f"""\
exit codes:
  0    fine
  1    {found}
  2    wrong usage, or something is not installed
  130  stopped with Ctrl-C"""


def code_of(error: Exception) -> int:
    """Return the exit code for an error."""
    return USAGE if isinstance(error, (UsageError, *_MISUSE)) else FOUND


def one_line(error: Exception) -> str:
    """Return an error as one line: where, what, and what to do."""
    if isinstance(error, FerryError):
        where = f"{error.where}: " if error.where else ""
        return " ".join(f"{where}{error.what}{f'; {error.hint}' if error.hint else ''}".split())
    text = " ".join(str(error).split())
    if isinstance(error, UsageError):
        return text
    return f"{type(error).__name__}: {text}; --traceback shows where"
