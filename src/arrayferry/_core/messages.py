"""Refuse invalid options, warn at the line that a warning is about, and put things into words."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np

from arrayferry.errors import OptionError, UnsupportedError

_PACKAGES = ("arrayferry", "gymnasium")


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the nearest line outside arrayferry and Gymnasium, however deep in them we are."""
    frame, levels = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        frame, levels = frame.f_back, levels + 1
    warnings.warn(message, category, stacklevel=levels)


def refuse_unknown(unknown: Iterable[str], known: Iterable[str], of: str) -> None:
    """Raise if there is an unknown option, and suggest the one that was probably meant."""
    known = list(known)
    for name in unknown:
        close = [option for option in known if option in name.split("_")] or get_close_matches(name, known, 1)
        meant = "".join(f"did you mean {one}? " for one in close[:1])
        hint = f"{meant}The options are {', '.join(known)}"
        raise UnsupportedError(f"{name} is not an option for {of}", hint)


def refuse_choice(name: str, value: Any, *choices: str) -> None:
    """Raise if an option's value is not one of the choices."""
    if value not in choices:
        hint = f"pass {' or '.join(map(repr, choices))}" if choices else f"leave {name} out"
        raise OptionError(f"{name}={value!r} is not valid", hint)


def count_of(name: str, value: Any, otherwise: str = "") -> int:
    """Return an option that must be a whole number, at least 1; `otherwise` says what else may be passed."""
    is_count = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_count or value < 1:
        raise OptionError(f"{name}={value!r} is not valid", f"pass a whole number, at least 1{otherwise}")
    return int(value)


def with_article(kind: str) -> str:
    """Return the name of a type with an article, as it reads in a sentence.

    >>> with_article("list"), with_article("object"), with_article("NoneType")
    ('a list', 'an object', 'None')
    """
    if kind == "NoneType":
        return "None"
    return f"{'an' if kind.startswith(tuple('AEIOUaeiou')) else 'a'} {kind}"


def number_text(number: Any) -> str:
    """Return a number as text; of an integer with more digits than Python writes, only the size.

    >>> number_text(2**70), number_text(10**5000)
    ('1180591620717411303424', 'an integer of 16610 bits')
    """
    bits = number.bit_length() if isinstance(number, int) else 0
    return str(number) if bits <= _MOST_BITS else f"an integer of {bits} bits"


# The longest integer that a message shows.
_MOST_BITS = 1000


def note_on(error: Exception, note: str) -> None:
    """Add a note to an error; before Python 3.11, append it to the message, if there is one."""
    if (add := getattr(error, "add_note", None)) is not None:
        add(note)
    elif len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}\n{note}",)
