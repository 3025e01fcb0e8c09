"""Is an observation in its space? And if not: which leaf of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium import spaces

from arrayferry._core.containers import DICT
from arrayferry._core.registry import describe
from arrayferry._core.walk import path_of
from arrayferry.spaces.members import to_numpy

__all__ = ["changeable", "misfits"]

# Spaces whose members all have one form.
_FIXED = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)


def misfits(space: spaces.Space[Any], value: Any, path: str = "obs") -> Iterator[tuple[str, str]]:
    """Yield the path of each leaf that its space does not contain, and why.

    >>> space = spaces.Dict(camera=spaces.Box(0, 255, (2, 2), np.uint8), lives=spaces.Discrete(3))
    >>> for path, why in misfits(space, {"camera": np.zeros((2, 3), np.uint8), "lives": 2}):
    ...     print(path, "-", why)
    obs["camera"] - it is not in Box(0, 255, (2, 2), uint8): it is uint8[2,3] numpy, 0 to 0
    """
    parts = _parts(space)
    if parts and _is_built_like(value, space):
        for key, part in parts.items():
            yield from misfits(part, value[key], _inside(path, key))
    elif not _contains(space, value):
        yield path, f"it is not in {space}: it is {_shown(value)}"


def _shown(value: Any) -> str:
    """Return a number itself; of an array, what `describe` says and its range."""
    if isinstance(value, (int, float, np.number)):
        return str(value)
    if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iuf":
        return f"{describe(value)}, {value.min()} to {value.max()}"
    return describe(value)


def changeable(space: spaces.Space[Any], path: str = "obs") -> Iterator[str]:
    """Yield the paths in a space below which members may have another form each time."""
    for key, part in _parts(space).items():
        yield from changeable(part, _inside(path, key))
    if not isinstance(space, (*_FIXED, spaces.Dict, spaces.Tuple)):
        yield path


def _parts(space: spaces.Space[Any]) -> Mapping[Any, spaces.Space[Any]]:
    """Return the spaces that a Dict or Tuple consists of; none, if it has its own idea of a member."""
    if isinstance(space, spaces.Dict) and type(space).contains is spaces.Dict.contains:
        return space.spaces
    if isinstance(space, spaces.Tuple) and type(space).contains is spaces.Tuple.contains:
        return dict(enumerate(space.spaces))
    return {}


def _is_built_like(value: Any, space: Any) -> bool:
    """Return whether a value has the parts that a Dict or Tuple space asks for, whatever they are."""
    if isinstance(space, spaces.Dict):
        return isinstance(value, dict) and value.keys() == space.spaces.keys()
    return isinstance(value, (tuple, list)) and len(value) == len(space.spaces)


def _inside(path: str, key: Any) -> str:
    return path_of(path, [(DICT, [key], 0)])


def _contains(space: spaces.Space[Any], value: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a space says to some values is not about us
        with suppress(Exception):  # arrays of another framework are strange to some
            if space.contains(value):
                return True
        value = to_numpy(value)
        return bool(space.contains(_without_nan(value, space) if isinstance(space, spaces.Box) else value))


def _without_nan(value: Any, space: spaces.Box) -> Any:
    """Return an array with the lowest member in place of NaN, which is a finding of its own."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.shape != space.shape:
        return value
    return np.where(np.isnan(value), space.low.astype(value.dtype), value)
