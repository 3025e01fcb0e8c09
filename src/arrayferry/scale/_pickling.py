"""What is sent between a driver and its workers, as bytes: functions, values and exceptions."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

import cloudpickle

from arrayferry._core.interruptions import ignore_errors, is_from_handler
from arrayferry._core.messages import note_on
from arrayferry.errors import UnsupportedError

__all__ = ["Failure", "dumps", "dumps_by_value", "failure_of", "pickled"]


class Failure(NamedTuple):
    """An environment's exception, on its way to the driver."""

    error: Exception


def pickled(env_fns: Sequence[Any]) -> bytes:
    """Return functions in a form that another process can read."""
    hint = "create what they need inside them, not outside"
    return dumps_by_value(list(env_fns), "env_fns cannot be sent to a worker", hint)


def dumps(value: Any) -> bytes:
    """Return a value as bytes that `pickle.loads` reads, if that is possible at all."""
    with ignore_errors():
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return dumps_by_value(value)


def dumps_by_value(
    value: Any,
    what: str = "something cannot be sent to or from a worker",
    hint: str = "leave it out, or send something that can be pickled",
) -> bytes:
    """Return a value as bytes that include the functions and classes of a script; slower than `dumps`."""
    try:
        found: bytes = cloudpickle.dumps(value)
    except Exception as error:
        if is_from_handler(error):
            raise
        raise UnsupportedError(f"{what} ({type(error).__name__}: {error})", hint) from error
    return found


def failure_of(error: Exception, rows: range) -> Failure:
    """Return an exception in a form that can be pickled, with the traceback of its worker as a note."""
    who = f"the worker of environments {rows[0]} to {rows[-1]}"
    note = f"in {who}:\n" + "".join(traceback.format_exception(error))
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:
        error = RuntimeError("".join(traceback.format_exception_only(error)).strip())
    note_on(error, note)
    return Failure(error)
