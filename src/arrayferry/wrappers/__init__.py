"""The wrappers, by the names that they have in `gymnasium.wrappers`.

To move, replace `gymnasium.wrappers` by `arrayferry.wrappers` in an import: the conversion wrappers are
ours, all others are Gymnasium's.

>>> import arrayferry.wrappers
>>> from arrayferry.wrappers import JaxToTorch, NumpyToTorch, RecordVideo, vector
"""

from __future__ import annotations

from typing import Any

from gymnasium import wrappers as _gymnasium

from arrayferry.wrappers import pairs as _pairs
from arrayferry.wrappers import vector as vector
from arrayferry.wrappers._wrap import wrap as wrap
from arrayferry.wrappers.array_conversion import ArrayConversion as ArrayConversion
from arrayferry.wrappers.pairs import *  # noqa: F403

__all__ = ["ArrayConversion", "vector", "wrap"]
__all__ += _pairs.__all__


def __getattr__(name: str) -> Any:
    return getattr(_gymnasium, name)
