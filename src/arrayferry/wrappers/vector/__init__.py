"""The wrappers for vector environments, by the names that they have in `gymnasium.wrappers.vector`."""

from __future__ import annotations

from typing import Any

from gymnasium.wrappers import vector as _gymnasium

from arrayferry.wrappers.vector import pairs as _pairs
from arrayferry.wrappers.vector.array_conversion import ArrayConversion as ArrayConversion
from arrayferry.wrappers.vector.pairs import *  # noqa: F403

__all__ = ["ArrayConversion"]
__all__ += _pairs.__all__


def __getattr__(name: str) -> Any:
    return getattr(_gymnasium, name)
