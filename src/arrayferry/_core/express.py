"""The express lane: straight code for what environments mostly return.

It takes what the walk takes and gives what the walk gives, without keeping track of where it is. When
anything is out of the ordinary - an error, a leaf to warn about, a structure that is too deep - it
raises and leaves no trace, and the walk does it all again: the walk knows the path, and says it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np

from arrayferry._core import ownership
from arrayferry._core.containers import handle_dict
from arrayferry._core.framework import Array
from arrayferry._core.swift import swift
from arrayferry._core.tree import KEEP, MANY, Container, Handler, unchanged

__all__ = ["Terms", "Ways", "express"]

# The values of a container, to their new values.
Carry = Callable[[Iterable[Any]], list[Any]]

# The number of references to a value (counted before it is itself an argument), and the value, to its
# new value.
Other = Callable[[int, Any], Any]


class Terms(NamedTuple):
    """On which terms values are carried.

    Attributes:
        handlers: what to do with each type.
        arrays: the handler for `np.ndarray`, where nothing else is registered for it.
        adopt: from a private array to the target's, fast.
        takes: the dtypes of arrays that `adopt` takes as they are; none, if they are to be copied.
        takes_bools: whether it also takes bools that are 0 and 1.
        shares: whether they are given to it whoever else sees them.
    """

    handlers: Mapping[type, Handler]
    arrays: Handler
    adopt: Callable[[Array], Any] | None = None
    takes: frozenset[np.dtype[Any]] = frozenset()
    takes_bools: bool = False
    shares: bool = False


class Ways(NamedTuple):
    """How values are carried.

    Attributes:
        alone: those of a container that nobody else holds.
        shared: those of a container that others can reach.
        one: the one value in a list that nobody else holds.
        lane: who does it, where it is in C.
    """

    alone: Carry
    shared: Carry
    one: Callable[[list[Any]], Any]
    lane: Any = None


class Detour(Exception):
    """The walk shall do it."""


def express(terms: Terms, tells: bool) -> Ways:
    """The ways for what an environment returns.

    Args:
        terms: on which terms.
        tells: whether somebody wants to know of leaves that have no counterpart.
    """
    return _in_python(terms, tells) if swift is None else _in_c(terms, tells)


def _in_c(terms: Terms, tells: bool) -> Ways:
    # By number, of which equal dtypes may have two: int64 and longlong.
    takes = sum({1 << dtype.num for dtype in map(np.dtype, np.typecodes["All"]) if dtype in terms.takes})
    kinds = terms.handlers, unchanged, terms.arrays, handle_dict, Container, KEEP, Detour
    lane = swift.Lane(terms.adopt, *kinds, takes, terms.takes_bools, terms.shares, tells)
    return Ways(lane.alone, lane.shared, lane.one, lane)


def _in_python(terms: Terms, tells: bool) -> Ways:
    handlers, enough = terms.handlers, ownership.unshared

    def other(references: int, value: Any) -> Any:
        found = handlers[type(value)](value, references)
        if type(found) is not Container:
            return found
        if found is KEEP:
            if tells:
                raise Detour
            return value
        carry = alone if references <= enough and found.counted else shared
        return found.build(value, carry(found.values(value)))

    # The lane for arrays knows its own ways with these two, and with private arrays only.
    special = handlers[np.ndarray] is not terms.arrays or handlers[dict] is not handle_dict or terms.shares
    lane = one_by_one if special or terms.adopt is None else adopting(terms.adopt, terms.takes)
    ways = alone, shared, *_ = lane(other)
    return ways


def one_by_one(other: Other) -> Ways:
    """Every value goes by the handler of its type."""
    return Ways(
        alone=lambda values: [other(getrefcount(value), value) for value in values],
        shared=lambda values: [other(MANY, value) for value in values],
        one=lambda box: other(getrefcount(box[0]) + 1, box[0]),
    )


def adopting(adopt: Callable[[Array], Any], takes: frozenset[np.dtype[Any]]) -> Callable[[Other], Ways]:
    """Arrays that are ours to take are adopted on the spot. The proof is that of `ownership`, in short.

    Args:
        adopt: from a private array to the target's.
        takes: the dtypes of arrays that it takes as they are.
    """
    # Written out twice: a function call would take as long as the proof.
    mask, ours = ownership.OURS_TO_TAKE | ownership.WRITES_BACK, ownership.OURS_TO_TAKE
    weak_references, plain, enough = weakref.getweakrefcount, np.ndarray, ownership.unshared

    def lane(other: Other) -> Ways:
        def alone(values: Iterable[Any]) -> list[Any]:
            return [
                adopt(value)
                if type(value) is plain
                and getrefcount(value) <= enough
                and value.flags.num & mask == ours
                and value.dtype in takes
                and not weak_references(value)
                else other(getrefcount(value), value)
                for value in values
            ]

        def one(box: list[Any]) -> Any:
            value = box[0]
            if (
                type(value) is plain
                and getrefcount(value) <= enough
                and value.flags.num & mask == ours
                and value.dtype in takes
                and not weak_references(value)
            ):
                return adopt(value)
            if type(value) is dict and getrefcount(value) <= enough:
                return dict(zip(value, alone(value.values())))
            return other(getrefcount(value), value)

        return Ways(alone, one_by_one(other).shared, one)

    return lane


if ownership.COUNTS_PROVE:
    # The same count as in the walk, on every Python so far; the lower one proves for both.
    _alone, _, _one, _ = one_by_one(lambda references, _: references)
    ownership.unshared = min(ownership.unshared, _alone([object()])[0], _one([object()]))
