"""Functions that are called as they are, even where a compiler traces the code that calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound="Callable[..., Any]")

# What a framework with such a compiler tells it, when the framework is first used.
FUNCTIONS: list[Any] = []


def eager(function: _F) -> _F:
    """Mark a function that converts, or steps an environment: it has effects, and cannot be traced."""
    FUNCTIONS.append(function)
    return function
