"""R20: containers come back whole, or not at all."""

from __future__ import annotations

import dataclasses
import random
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from typing import Any

import numpy as np

from arrayferry import FerryError
from reliability.goals import Goal
from reliability.libraries import Library
from reliability.values import NAMES, kind_of


@dataclasses.dataclass
class _Data:
    x: Any
    y: Any = None


@dataclasses.dataclass(frozen=True)
class _Frozen:
    x: Any


class _Dict(dict[Any, Any]):
    pass


class _Slotted(list[Any]):
    __slots__ = ("mark",)


class _User(UserDict[Any, Any]):
    pass


_Point = namedtuple("_Point", "x y")


def _build(r: random.Random, parts: list[Any]) -> Any:
    """A container of one of many kinds, some of them with attributes."""
    one, items = parts[0], {f"k{i}": part for i, part in enumerate(parts)}
    made: Any = r.choice(
        [
            lambda: dict(items),
            lambda: OrderedDict(items),
            lambda: defaultdict(int, items),
            lambda: list(parts),
            lambda: tuple(parts),
            lambda: deque(parts, maxlen=9),
            lambda: _Point(one, "text"),
            lambda: _Data(one),
            lambda: _Frozen(one),
            lambda: _Dict(items),
            lambda: _Slotted(parts),
            lambda: _User(items),
            lambda: ChainMap(dict(items), {"more": one}),
            lambda: Counter({"a": 2}),
        ]
    )()
    if isinstance(made, (_Dict, _User)) and r.random() < 0.5:
        made.note = one
    if isinstance(made, _Slotted):
        made.mark = one
    return made


def _structure(r: random.Random) -> Any:
    known: list[Any] = [np.arange(3.0), "text", None, 2, True]
    for _ in range(r.randrange(2, 8)):
        known.append(_build(r, [r.choice(known) for _ in range(r.randrange(1, 4))]))
    return known[-1]


def _outline(value: Any, seen: dict[int, int]) -> Any:
    """The types, keys, attributes and shared parts of a structure; of arrays and numbers, their values."""
    if isinstance(value, (str, type(None), bool)):
        return value
    if isinstance(value, (int, float)) or kind_of(value) in NAMES:
        return float(np.sum(np.asarray(value)))
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = len(seen)
    inner: Any = list(value.items()) if hasattr(value, "items") else None
    if inner is None and isinstance(value, (list, tuple, deque)):
        inner = list(enumerate(value))
    more = dict(getattr(value, "__dict__", {}))
    more.pop("data", None), more.pop("maps", None)
    if isinstance(value, _Slotted):
        more["mark"] = value.mark
    kept = getattr(value, "maxlen", None), getattr(value, "default_factory", None)
    parts = [(key, _outline(one, seen)) for key, one in [*(inner or ()), *more.items()]]
    return type(value).__name__, parts, str(kept)


def containers_are_whole(number: int, library: Library) -> None:
    """Type, order, attributes and sharing are what they were; the input is as it was."""
    r = random.Random(number)
    value, target = _structure(r), r.choice(NAMES)
    before = _outline(value, {})
    try:
        result = library.convert(value, target)
    except FerryError as error:
        raise AssertionError(f"refused: {error}") from error
    assert _outline(value, {}) == before, "the input was written to"
    assert _outline(result, {}) == before, f"{_outline(result, {})} came of {before}"


GOALS = [
    Goal(
        name="R20",
        title="containers come back whole",
        trial=containers_are_whole,
        unit="a random structure of 14 kinds of containers",
        full=40_000,
        thin=150,
        peer=2_000,
    ),
]
