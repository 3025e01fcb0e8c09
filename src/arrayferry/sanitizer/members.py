"""Is an observation in its space? And if not: which leaf, and why.

The answer is that of `space.contains`, but for NaN: that is a finding of its own, and no bound is broken.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import singledispatch
from typing import Any

import numpy as np
from gymnasium import spaces

from arrayferry._core.registry import describe, framework_of
from arrayferry.sanitizer.leaves import first_where
from arrayferry.spaces.members import to_numpy

__all__ = ["Judge", "changeable", "judge"]

# From a value and its path to what is wrong: the path of a leaf, and why.
Judge = Callable[[Any, str], Iterator[tuple[str, str]]]


def judge(space: spaces.Space[Any]) -> Judge:
    """What tells why a value is no member of a space.

    >>> space = spaces.Dict(camera=spaces.Box(0, 255, (2, 2), np.uint8), lives=spaces.Discrete(3))
    >>> for path, why in judge(space)({"camera": np.zeros((2, 3), np.uint8), "lives": 7}, "obs"):
    ...     print(path, "-", why)
    obs["camera"] - its shape is (2, 3), not (2, 2)
    obs["lives"] - 7 is none of 0 to 2
    """
    known = {kind.contains for kind in _judge.registry if kind is not object}
    return _judge(space) if type(space).contains in known else _asking(space)


def _asking(space: spaces.Space[Any]) -> Judge:
    def why(value: Any, path: str) -> Iterator[tuple[str, str]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a space says to some values is not about us
            fine = False
            with suppress(Exception):  # arrays of another framework are strange to some
                fine = space.contains(value)
            fine = fine or space.contains(to_numpy(value))
        if not fine:
            yield path, f"it is not in {space}"

    return why


@singledispatch
def _judge(space: spaces.Space[Any]) -> Judge:
    return _asking(space)  # Text, Graph, OneOf, and spaces that nobody here has heard of


@_judge.register(spaces.Box)
def _(space: spaces.Box) -> Judge:
    low, high = np.asarray(space.low), np.asarray(space.high)
    lowest, highest = (low.max(), high.min()) if low.size else (0, 0)
    limits: Any = np.iinfo(space.dtype.name) if space.dtype.kind in "iu" else None
    any_value = limits and lowest <= limits.min and highest >= limits.max

    def why(value: Any, path: str) -> Iterator[tuple[str, str]]:
        try:
            array = _array(value, space.dtype)
        except (ValueError, TypeError, OverflowError):
            yield path, f"it is a {type(value).__name__}, no array of {space.dtype}"
            return
        if not np.can_cast(array.dtype, space.dtype):
            yield path, f"its dtype is {array.dtype}, not {space.dtype}"
        elif array.shape != space.shape:
            yield path, f"its shape is {array.shape}, not {space.shape}"
        elif not any_value and array.size and not (lowest <= array.min() and array.max() <= highest):
            for bad, bound, word in ((array < low, low, "below"), (array > high, high, "above")):
                if bad.any():
                    index, where = first_where(bad)
                    yield path, f"{where} is {array[index]}, {word} {bound[index]}"

    return why


@_judge.register(spaces.Discrete)
def _(space: spaces.Discrete[Any]) -> Judge:
    first, last = int(space.start), int(space.start + space.n - 1)

    def why(value: Any, path: str) -> Iterator[tuple[str, str]]:
        number: Any = value if isinstance(value, (int, np.generic)) else _array(value)
        if not space.contains(number):
            if not isinstance(value, int) and (number.shape != () or number.dtype.kind not in "iu"):
                yield path, f"it is {describe(number)}, not one integer"
            elif not first <= int(number) <= last:
                yield path, f"{int(number)} is none of {first} to {last}"
            else:
                yield path, f"its dtype is {number.dtype}, not {space.dtype}"

    return why


@_judge.register(spaces.MultiBinary)
@_judge.register(spaces.MultiDiscrete)
def _(space: Any) -> Judge:
    def why(value: Any, path: str) -> Iterator[tuple[str, str]]:
        array = _array(value)
        if not space.contains(array):
            if array.shape != space.shape:
                yield path, f"its shape is {array.shape}, not {space.shape}"
            elif not np.can_cast(array.dtype, space.dtype):
                yield path, f"its dtype is {array.dtype}, not {space.dtype}"
            else:
                yield path, f"one of its values is not in {space}"

    return why


@_judge.register(spaces.Dict)
def _(space: spaces.Dict) -> Judge:
    judges = {key: judge(inner) for key, inner in space.spaces.items()}

    def why(value: Any, path: str) -> Iterator[tuple[str, str]]:
        if not isinstance(value, dict):
            yield path, f"it is {describe(value)}, not a dict of {', '.join(map(repr, judges))}"
            return
        for key in value.keys() - judges.keys():
            yield path + _step(key), "its space has no such key"
        for key, inner in judges.items():
            if key in value:
                yield from inner(value[key], path + _step(key))
            else:
                yield path + _step(key), "it is missing"

    return why


@_judge.register(spaces.Tuple)
def _(space: spaces.Tuple[Any]) -> Judge:
    judges = [judge(inner) for inner in space.spaces]

    def why(value: Any, path: str) -> Iterator[tuple[str, str]]:
        if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != len(judges):
            yield path, f"it is {_amount(value)}, not a tuple of {len(judges)}"
            return
        for index, inner in enumerate(judges):
            yield from inner(value[index], f"{path}[{index}]")

    return why


@_judge.register(spaces.Sequence)
def _(space: spaces.Sequence) -> Judge:
    if space.stack:
        return _asking(space)
    one = judge(space.feature_space)

    def why(value: Any, path: str) -> Iterator[tuple[str, str]]:
        if not isinstance(value, tuple):
            yield path, f"it is {describe(value)}, not a tuple"
            return
        for index, item in enumerate(value):
            yield from one(item, f"{path}[{index}]")

    return why


def changeable(space: spaces.Space[Any], path: str) -> Iterator[str]:
    """The parts of a space whose members may have another form each time; only its kinds are known."""
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from changeable(inner, path + _step(key))
    elif isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            yield from changeable(inner, f"{path}[{index}]")
    elif not isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)):
        yield path


def _array(value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """An array of any framework as NumPy sees it; of anything else, an array that is made of it."""
    if isinstance(value, np.ndarray):
        return value
    if framework := framework_of(type(value)):
        return np.asarray(framework.to_numpy(value, False))
    return np.asarray(value, dtype=dtype)


def _amount(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return describe(value)


def _step(key: Any) -> str:
    return f'["{key}"]' if type(key) is str else f"[{key!r}]"
