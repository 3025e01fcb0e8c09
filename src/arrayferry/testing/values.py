"""Values that are difficult to convert: arrays of every layout and dtype, in every container."""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.convert import convert
from arrayferry._core.dtypes import ML_DTYPES, STANDARD
from arrayferry._core.framework import Array, Framework
from arrayferry._core.registry import framework_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "CONTAINERS",
    "LAYOUTS",
    "arrays",
    "at_offset",
    "bits",
    "edges",
    "layouts",
    "overwrite",
    "structures",
    "zip_leaves",
]


def bits(array: Any) -> bytes:
    """Return the values of any framework's array as bytes, in C order and native byte order."""
    found = _in_numpy(array)
    return np.asarray(found, found.dtype.newbyteorder("=")).tobytes()


def overwrite(array: Any) -> bool:
    """Change every byte of an array in place; return False if it cannot be written to."""
    if not isinstance(array, np.ndarray):
        values = np.array(_in_numpy(array), order="C")
        overwrite(values)
        try:
            array[...] = convert(values, _framework_of(array))
        except (TypeError, RuntimeError):  # it is immutable; or cannot be set in this dtype
            return False
        _expect(bits(array) == bits(values), f"{array!r} ignores what is written to it")
        return True
    while isinstance(array.base, np.ndarray):
        array = array.base
    if array.flags.writeable:
        memory = array.ravel(order="K").view(np.uint8)
        _expect(np.shares_memory(memory, array) or not array.size, "only a copy was overwritten")
        memory ^= 1
    return bool(array.flags.writeable)


def edges(dtype: str) -> Array:
    """Return an array of values that are easily lost: NaN with a payload, -0.0, denormals, extremes."""
    element = _dtype(dtype)
    if element.kind == "b":
        return np.array([[True, False, True], [False, False, True]])
    size = element.itemsize // (2 if element.kind == "c" else 1)
    sign = 1 << 8 * size - 1
    numbers = (0, 1, sign, sign + 1, sign - 1, 2 * sign - 1)
    parts = [n.to_bytes(size, sys.byteorder) * (element.itemsize // size) for n in numbers]
    array: Array = np.frombuffer(b"".join(parts), element).reshape(2, 3).copy()
    return array


def at_offset(array: Array, offset: int) -> Array:
    """Return a copy whose address is `offset` bytes beyond a multiple of 64."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    copy: Array = np.ndarray(array.shape, array.dtype, memory.data, start)
    copy[...] = array
    return copy


def _read_only(array: Array) -> Array:
    view: Array = array.view()
    view.flags.writeable = False
    return view


def _in_record(array: Array) -> Array:
    record = np.zeros(array.shape, [("before", "u1"), ("values", array.dtype)])
    record["values"] = array
    values: Array = record["values"]
    return values


def _byte_swapped(array: Array) -> Array:
    swapped: Array = array.astype(array.dtype.newbyteorder("S"))
    return swapped


def _offset_by(offset: int) -> Callable[[Array], Array]:
    return lambda array: at_offset(array, offset)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "plain": lambda array: array,
    "flipped": lambda array: np.flip(array) if array.ndim else array,
    "stepped": lambda array: np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array,
    "transposed": np.transpose,
    "fortran": np.asfortranarray,
    **{f"offset by {offset}": _offset_by(offset) for offset in (0, 1, 4, 16, 32, 63)},
    "read-only": _read_only,
    "broadcast": lambda array: np.broadcast_to(array, (2, *array.shape)),
    "byte-swapped": lambda array: array if array.dtype.kind == "V" else _byte_swapped(array),
    "in a record": _in_record,
    "0-d": lambda array: np.resize(array, 1).reshape(()),
    "empty": lambda array: array[..., :0] if array.ndim else array,
}


def layouts() -> SearchStrategy[Callable[[Array], Array]]:
    """Return a strategy for functions that change an array's layout: up to three of `LAYOUTS`, composed."""
    from hypothesis import strategies as st

    def composed(steps: list[Callable[[Array], Array]]) -> Callable[[Array], Array]:
        def lay_out(array: Array) -> Array:
            for step in steps:
                array = step(array)
            return array

        return lay_out

    step = st.sampled_from(list(LAYOUTS.values())) | st.integers(0, 64).map(_offset_by)
    return st.lists(step, min_size=1, max_size=3).map(composed)


def arrays(dtypes: Sequence[str] = ()) -> SearchStrategy[Array]:
    """Return a strategy for NumPy arrays of any dtype (or one of `dtypes`), any bits and any layout."""
    from hypothesis import strategies as st

    shapes = st.sampled_from([(), (5,), (2, 3), (3, 2, 2)]) | st.lists(st.integers(0, 3), max_size=3)

    @st.composite
    def draw_array(draw: Any) -> Array:
        dtype = draw(st.sampled_from(list(dtypes) or _all_dtypes()))
        shape = tuple(draw(shapes))
        if draw(st.booleans()):
            array = np.resize(edges(dtype), shape)
        else:
            size = int(np.prod(shape)) * _dtype(dtype).itemsize
            memory = np.array(bytearray(draw(st.binary(min_size=size, max_size=size))), np.uint8)
            memory &= 1 if dtype == "bool" else 255
            array = memory.view(_dtype(dtype)).reshape(shape)
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


# For each kind of container, a function that makes one of a list of values.
CONTAINERS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "dict": _as_dict,
    "OrderedDict": lambda values: OrderedDict(_as_dict(values)),
    "defaultdict": lambda values: defaultdict(int, _as_dict(values)),
    "subclass of dict": lambda values: _Dict(_as_dict(values)),
    "mappingproxy": lambda values: MappingProxyType(_as_dict(values)),
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
    _expect(type(new) is type(old), f"{type(old).__name__} became {type(new).__name__}")
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


def _in_numpy(array: Any) -> Array:
    """Return a NumPy view or copy of the array."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np.asarray(array)
    found = _framework_of(array).to_numpy(array, False)
    if found is None:
        raise AssertionError(f"{array!r} has no counterpart in NumPy")
    return found


def _framework_of(array: Any) -> Framework:
    framework = framework_of(type(array))
    if framework is None:
        raise AssertionError(f"{array!r} is not an array")
    return framework


def _dtype(name: str) -> np.dtype[Any]:
    if name in ML_DTYPES:
        import ml_dtypes

        name = getattr(ml_dtypes, name)
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


def _all_dtypes() -> list[str]:
    try:
        import ml_dtypes
    except ImportError:
        return sorted(STANDARD)
    return sorted(STANDARD | {name for name in ML_DTYPES if hasattr(ml_dtypes, name)})


def _expect(condition: bool, message: str) -> None:
    if not condition:  # no assert statement: python -O leaves those out
        raise AssertionError(message)
