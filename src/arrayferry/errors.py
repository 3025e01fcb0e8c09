"""What can go wrong. Every error is a `FerryError` and also the built-in exception that a caller expects.

    FerryError
    ├── UnsupportedError        TypeError      a value, environment or option that cannot be handled
    ├── SharingError            ValueError     copy=False, but the memory cannot be shared
    ├── CircularError           ValueError     a container contains itself
    ├── DeviceError             ValueError     the device is not available
    ├── UnknownFrameworkError   ValueError     `to` does not name an array framework
    ├── OptionError             ValueError     an option has an invalid value
    ├── NarrowingError          OverflowError  a value does not fit the target's dtype
    ├── TransferError           BufferError    the framework's own call failed; its error is the cause
    ├── NotInstalledError       ImportError    the framework is not installed
    └── WorkerError             RuntimeError   a worker did not start, or failed too often

There are two warnings: `KeptWarning`, when a leaf of an observation or action has no counterpart in the
target and stays as it is; and `FrameworkWarning`, when only what an environment holds suggests its framework,
when another one was assumed, or when a wrapper that computes with NumPy is around an environment of another.

A message says where it happened, what happened, and what to do about it:

    >>> print(
    ...     NarrowingError(
    ...         "int64[1] numpy -> int32 jax: 1099511627776 does not fit",
    ...         hint="enable jax_enable_x64",
    ...         where='obs["steps"]',
    ...     )
    ... )
    obs["steps"]: int64[1] numpy -> int32 jax: 1099511627776 does not fit
    Hint: enable jax_enable_x64
"""

from __future__ import annotations

from typing import TypeVar

__all__ = [
    "CircularError",
    "DeviceError",
    "FerryError",
    "FrameworkWarning",
    "KeptWarning",
    "NarrowingError",
    "NotInstalledError",
    "OptionError",
    "SharingError",
    "TransferError",
    "UnknownFrameworkError",
    "UnsupportedError",
    "WorkerError",
]

_E = TypeVar("_E", bound="FerryError")


class FerryError(Exception):
    """The base of all errors that arrayferry raises.

    Attributes:
        what: what happened, in one line.
        hint: what to do about it; may be empty.
        where: the path of the leaf, such as `obs["camera"][2]`; empty if the error is not about a leaf.
    """

    def __init__(self, what: str, hint: str = "", where: str = "") -> None:
        """Take all three as positional arguments, so that the error can be pickled."""
        # Not `super()`: a subclass may also derive from another package's error, which takes other arguments.
        Exception.__init__(self, what, hint, where)

    @property
    def what(self) -> str:
        """What happened."""
        return str(self.args[0])

    @property
    def hint(self) -> str:
        """What to do about it."""
        return str(self.args[1])

    @property
    def where(self) -> str:
        """The path of the leaf."""
        return str(self.args[2])

    def at(self: _E, where: str) -> _E:
        """Set the path and return the error; an existing path is kept, or appended to `where` if relative."""
        relative = not self.where or self.where[0] in ".["
        self.args = (self.what, self.hint, where + self.where if relative else self.where)
        return self

    def inside(self: _E, name: str) -> _E:
        """Make the path relative to `name`, the root of an inner walk, and return the error."""
        self.args = (self.what, self.hint, self.where.removeprefix(name))
        return self

    def __str__(self) -> str:
        """Return where, what, and what to do."""
        place = f"{self.where}: " if self.where else ""
        return place + self.what + (f"\nHint: {self.hint}" if self.hint else "")


class UnsupportedError(FerryError, TypeError):
    """A leaf or a container cannot be converted; the hint says what to call instead."""


class SharingError(FerryError, ValueError):
    """`copy=False`, but the memory of this leaf cannot be shared."""


class CircularError(FerryError, ValueError):
    """A container contains itself."""


class DeviceError(FerryError, ValueError):
    """The device is not available; the hint lists those that are."""


class UnknownFrameworkError(FerryError, ValueError):
    """`to` does not name an array framework; the hint lists the known ones."""


class OptionError(FerryError, ValueError):
    """An option has an invalid value; the hint lists the valid ones."""


class NarrowingError(FerryError, OverflowError):
    """A value does not fit the target's dtype; the hint says how to get a wider one."""


class TransferError(FerryError, BufferError):
    """The framework's own call failed; its error is the `__cause__`."""


class NotInstalledError(FerryError, ImportError):
    """The framework is not installed; the hint is the command that installs it."""


class WorkerError(FerryError, RuntimeError):
    """A worker did not start, or failed too often."""


class KeptWarning(UserWarning):
    """A leaf of an observation or action has no counterpart in the target, and stays as it is."""


class FrameworkWarning(UserWarning):
    """`wrap` assumed a framework, or a wrapper computes with NumPy, and the environment may use another."""
