"""Arrays of any dtype, bits and layout, in every kind of container: for Hypothesis, and to compare."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.framework import Array
from arrayferry.testing import LAYOUTS, at_offset, edges
from arrayferry.testing.values import all_dtypes

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def layouts() -> SearchStrategy[Callable[[Array], Array]]:
    """Return a strategy for functions that change an array's layout: up to three of `LAYOUTS`, composed."""
    from hypothesis import strategies as st

    def composed(steps: list[Callable[[Array], Array]]) -> Callable[[Array], Array]:
        def lay_out(array: Array) -> Array:
            for step in steps:
                array = step(array)
            return array

        return lay_out

    step = st.sampled_from(list(LAYOUTS.values())) | st.integers(0, 64).map(
        lambda n: partial(at_offset, offset=n)
    )
    return st.lists(step, min_size=1, max_size=3).map(composed)


def arrays(dtypes: Sequence[str] = ()) -> SearchStrategy[Array]:
    """Return a strategy for NumPy arrays of any dtype (or one of `dtypes`), any bits and any layout."""
    from hypothesis import strategies as st

    shapes = st.sampled_from([(), (5,), (2, 3), (3, 2, 2)]) | st.lists(st.integers(0, 3), max_size=3)

    @st.composite
    def draw_array(draw: Any) -> Array:
        dtype = draw(st.sampled_from(list(dtypes) or all_dtypes()))
        shape = tuple(draw(shapes))
        if draw(st.booleans()):
            array = np.resize(edges(dtype), shape)
        else:
            size = int(np.prod(shape)) * edges(dtype).itemsize
            memory = np.array(bytearray(draw(st.binary(min_size=size, max_size=size))), np.uint8)
            memory &= 1 if dtype == "bool" else 255
            array = memory.view(edges(dtype).dtype).reshape(shape)
        laid_out: Array = draw(layouts())(array)
        return laid_out

    return draw_array()


_Named = namedtuple("_Named", "left right")
_Data = dataclasses.make_dataclass("_Data", ["left", "right"])
_Frozen = dataclasses.make_dataclass("_Frozen", ["left", "right"], frozen=True)
_Slots = dataclasses.make_dataclass("_Slots", ["left", "right"], frozen=True, slots=True)


class _Dict(dict[Any, Any]):
    pass


class _List(list[Any]):
    pass


class _Tuple(tuple[Any, ...]):
    pass


def _as_dict(values: Sequence[Any]) -> dict[Any, Any]:
    names = ["a", 1, ("b", 2), None, 2.5, frozenset("c"), *range(6, len(values))]
    return dict(zip(names, values, strict=False))


def _first_two(cls: type) -> Callable[[Sequence[Any]], Any]:
    return lambda values: cls(*[*values, None, None][:2])


def _object_array(values: Sequence[Any]) -> Array:
    array = np.empty(len(values), object)
    for index, value in enumerate(values):  # assigned as a whole, arrays among them would be broadcast
        array[index] = value
    return array


class MutableKey:
    """A key of a dictionary that can become equal to another one."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MutableKey) and self.number == other.number


# For each kind of container, a function that makes one of a list of values.
CONTAINERS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "dict": _as_dict,
    "OrderedDict": lambda values: OrderedDict(_as_dict(values)),
    "defaultdict": lambda values: defaultdict(int, _as_dict(values)),
    "subclass of dict": lambda values: _Dict(_as_dict(values)),
    "UserDict": lambda values: UserDict(_as_dict(values)),
    "list": list,
    "subclass of list": _List,
    "tuple": tuple,
    "subclass of tuple": _Tuple,
    "namedtuple": _first_two(_Named),
    "deque": lambda values: deque(values, maxlen=len(values) + 1),
    "dataclass": _first_two(_Data),
    "frozen dataclass": _first_two(_Frozen),
    "dataclass with slots": _first_two(_Slots),
    "object array": _object_array,
}


def structures(leaves: SearchStrategy[Any], max_leaves: int = 5) -> SearchStrategy[Any]:
    """Return a strategy for nested structures of the containers in `CONTAINERS`."""
    from hypothesis import strategies as st

    def extend(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
        make = st.sampled_from(list(CONTAINERS.values()))
        return st.builds(lambda make, values: make(values), make, st.lists(inner, max_size=4))

    return st.recursive(leaves, extend, max_leaves=max_leaves)


def zip_leaves(old: Any, new: Any) -> Iterator[tuple[Any, Any]]:
    """Return the leaves of two structures in pairs; raise an AssertionError where the containers differ."""
    before, after = _contents(old), _contents(new)
    if before is None:
        yield old, new
        return
    assert type(new) is type(old), f"{type(old).__name__} became {type(new).__name__}"
    if after is None or before[0] != after[0]:  # formatted only now: the repr of some arrays raises
        raise AssertionError(f"{old!r} became {new!r}")
    for pair in zip(before[1], after[1], strict=True):
        yield from zip_leaves(*pair)


def _contents(value: Any) -> tuple[Any, list[Any]] | None:
    """Return what has to stay the same in a container, and its values; None for a leaf."""
    if isinstance(value, Mapping):
        return [*value, getattr(value, "default_factory", None)], list(value.values())
    if isinstance(value, (list, tuple, deque)):
        return (len(value), getattr(value, "maxlen", None)), list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return names, [getattr(value, name) for name in names]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.shape, list(value.flat)
    return None
