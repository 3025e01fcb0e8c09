"""The conformance kit: what a framework has to do, as checks that anybody can run.

    >>> from arrayferry.testing import CHECKS, check_framework
    >>> check_framework("numpy")

With pytest, one test a check: `@pytest.mark.parametrize("check", CHECKS)` and `check("numpy")`.
`arrays`, `layouts` and `structures` are Hypothesis strategies for values that break converters.
"""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.convert import Converter, convert
from arrayferry._core.dtypes import ML_DTYPES, STANDARD, cast_for
from arrayferry._core.framework import Array, Framework, dtype_name, find_framework, owner_of
from arrayferry._core.inventory import frameworks
from arrayferry.errors import DeviceError, SharingError, UnsupportedError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "CHECKS",
    "check_framework",
    "arrays",
    "layouts",
    "structures",
    "LAYOUTS",
    "CONTAINERS",
    "SEPARATE",
    "at_offset",
    "bits",
    "edges",
    "overwrite",
    "zip_leaves",
]

# They do not share a process well: pairs with them are checked only where they are imported.
SEPARATE = frozenset({"tensorflow", "paddle"})

# ------------------------------------------------------------------------------ arrays and layouts


def bits(array: Any) -> bytes:
    """The values of any framework's array as bytes: in C order and native byte order."""
    seen = _seen(array)
    return np.asarray(seen, seen.dtype.newbyteorder("=")).tobytes()


def overwrite(array: Any) -> bool:
    """Change every byte of an array in place; False if arrays of its kind cannot be written."""
    if not isinstance(array, np.ndarray):
        values = np.array(_seen(array), order="C")
        overwrite(values)
        try:
            array[...] = convert(values, _owner(array))
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
    """Two rows of the values that get lost: NaN with a payload, -0.0, denormals, extremes."""
    form = _dtype(dtype)
    if form.kind == "b":
        return np.array([[True, False, True], [False, False, True]])
    size = form.itemsize // (2 if form.kind == "c" else 1)
    sign = 1 << 8 * size - 1
    numbers = (0, 1, sign, sign + 1, sign - 1, 2 * sign - 1)
    parts = [n.to_bytes(size, sys.byteorder) * (form.itemsize // size) for n in numbers]
    array: Array = np.frombuffer(b"".join(parts), form).reshape(2, 3).copy()
    return array


def at_offset(array: Array, offset: int) -> Array:
    """A copy whose address is `offset` bytes beyond a multiple of 64."""
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
    """Functions that lay an array out in another way: up to three of `LAYOUTS`, composed."""
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
    """NumPy arrays of any dtype (or of one of `dtypes`), any bits, and any layout."""
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


# --------------------------------------------------------------------------------------- structures

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


def _keyed(values: Sequence[Any]) -> dict[Any, Any]:
    names = ["a", 1, ("b", 2), None, 2.5, frozenset("c"), *range(6, len(values))]
    return dict(zip(names, values, strict=False))


def _two(cls: type) -> Callable[[Sequence[Any]], Any]:
    return lambda values: cls(*[*values, None, None][:2])


def _object_array(values: Sequence[Any]) -> Array:
    array = np.empty(len(values), object)
    for index, value in enumerate(values):  # at once, arrays among them would be broadcast
        array[index] = value
    return array


# How each container of the contract is made from a list of values.
CONTAINERS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "dict": _keyed,
    "OrderedDict": lambda values: OrderedDict(_keyed(values)),
    "defaultdict": lambda values: defaultdict(int, _keyed(values)),
    "subclass of dict": lambda values: _Dict(_keyed(values)),
    "mappingproxy": lambda values: MappingProxyType(_keyed(values)),
    "UserDict": lambda values: UserDict(_keyed(values)),
    "list": list,
    "subclass of list": _List,
    "tuple": tuple,
    "subclass of tuple": _Tuple,
    "namedtuple": _two(_Named),
    "deque": lambda values: deque(values, maxlen=len(values) + 1),
    "dataclass": _two(_Data),
    "frozen dataclass": _two(_Frozen),
    "dataclass with slots": _two(_Slots),
    "object array": _object_array,
}


def structures(leaves: SearchStrategy[Any], max_leaves: int = 5) -> SearchStrategy[Any]:
    """Nested structures of every container in `CONTAINERS`."""
    from hypothesis import strategies as st

    def extend(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
        make = st.sampled_from(list(CONTAINERS.values()))
        return st.builds(lambda make, values: make(values), make, st.lists(inner, max_size=4))

    return st.recursive(leaves, extend, max_leaves=max_leaves)


def zip_leaves(old: Any, new: Any) -> Iterator[tuple[Any, Any]]:
    """The leaves of two structures side by side; AssertionError where the containers differ."""
    before, after = _inside(old), _inside(new)
    if before is None:
        yield old, new
        return
    _expect(type(new) is type(old), f"{type(old).__name__} became {type(new).__name__}")
    _expect(after is not None and before[0] == after[0], f"{old!r} became {new!r}")
    for pair in zip(before[1], after[1] if after else (), strict=True):
        yield from zip_leaves(*pair)


def _inside(value: Any) -> tuple[Any, list[Any]] | None:
    """What has to stay the same in a container, and its values; None for a leaf."""
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


# ------------------------------------------------------------------------------------- the checks


def check_leaves(name: str) -> None:
    """What is no array stays the same object, and so do arrays without a counterpart."""
    no_arrays = [True, False, "text", b"bytes", None, object(), len, {1, 2}, range(3), iter("x")]
    without_counterpart = ["U3", "S3", "M8[D]", "m8[s]", "i4,f8", "V3"]
    if np.dtype(np.longdouble).itemsize > 8:
        without_counterpart += ["longdouble", "clongdouble"]
    strange = [np.zeros(2, dtype) for dtype in without_counterpart]
    for leaf in [*no_arrays, *strange, np.ma.masked_array([1, 2], [True, False])]:
        result = convert([leaf], name)[0]
        _expect(result is leaf, f"{leaf!r} has to stay the same object, but became {result!r}")
    for dtype in find_framework(name).dtypes(None).intersection(_all_dtypes()):
        scalar = edges(dtype)[1, 1]
        _expect_array(convert(scalar, name), name, np.asarray(scalar), f"the scalar {scalar!r}")


def check_scalars(name: str) -> None:
    """A number becomes a 0-d array of the default dtype, strongly typed; it has to fit."""
    defaults = find_framework(name).scalars(None)
    for number in 3, -1, 0.25, -0.0, 1.5 - 2j:
        result = convert(number, name)
        _expect_array(result, name, np.asarray(number, defaults[type(number)]), repr(number))
        _expect(not getattr(result, "weak_type", False), f"{number!r} became weakly typed")
    _expect_error(OverflowError, lambda: convert([2**70], name), str(2**70), "value[0]")


def check_dtypes(name: str) -> None:
    """A dtype that the framework has goes there and back bit for bit; another one by value."""
    available = find_framework(name).dtypes(None)
    for dtype in _all_dtypes():
        source = edges(dtype)
        if dtype not in available:
            source = np.arange(6).reshape(2, 3).astype(source.dtype)
        cast = cast_for(source.dtype, available)
        result = convert(source, name)
        if cast is None:
            _expect(result is source, f"{dtype} has no counterpart, so it has to stay as it is")
        else:
            _expect_array(result, name, source.astype(cast.dtype), dtype)


def check_layouts(name: str) -> None:
    """However the source lies in memory, its values arrive."""
    for layout, lay_out in LAYOUTS.items():
        for dtype in {"uint8", "float32", "int32", "bool"} & find_framework(name).dtypes(None):
            source = lay_out(edges(dtype))
            _expect_array(convert(source, name), name, source, f"{dtype}, {layout}")


def check_ownership(name: str) -> None:
    """Unless memory is shared on purpose, what one side writes never reaches the other."""
    for target, make in _both_ways(name):
        for copy in None, True:
            source, terms = make(), f"{name}, copy={copy}, to {target}"
            wanted = bits(source)
            result = convert({"x": source}, target, copy=copy)["x"]
            overwrite(source)
            _expect(bits(result) == wanted, f"{terms}: writing to the source changed the result")
            before = bits(source)
            _expect(overwrite(result) or target != "numpy", f"{terms}: the result is read-only")
            _expect(bits(source) == before, f"{terms}: writing to the result changed the source")


def check_sharing(name: str) -> None:
    """With `copy=False` both sides see the same memory, or an error names the leaf."""
    for target, make in _both_ways(name):
        source = make()
        try:
            result = convert({"x": source}, target, copy=False)["x"]
        except SharingError as error:
            _expect(error.where == 'value["x"]', f"the error does not say where: {error}")
            continue
        _expect(result is source or _see_each_other(source, result), f"the {target} array is a copy")


def check_containers(name: str) -> None:
    """Every container comes back as itself, and the original is not written to."""
    array = edges("float32")
    everything = [make([array, "text", make([array])]) for make in CONTAINERS.values()]
    for old, new in zip_leaves(everything, convert(everything, name)):
        if old is array:
            _expect_array(new, name, edges("float32"), "an array in a container")
        else:
            _expect(new is old and old in ("text", None), f"{old!r} became {new!r}")


def check_devices(name: str) -> None:
    """Every device in the list can be named; another one is an error that lists them."""
    framework, source = find_framework(name), edges("float32")
    for device in framework.devices():
        result = convert(source, name, device)
        _expect(tuple(result.shape) == source.shape, f"on {device}: {source!r} became {result!r}")
        try:
            _expect(bits(result) == bits(source), f"on {device}: {source!r} became {result!r}")
        except UnsupportedError as error:  # meta has shapes, but no values
            _expect(device == "meta", f"on {device}: {error}")
    unknown = "no-such-device:7"
    _expect_error(DeviceError, lambda: Converter(name, unknown), unknown, *framework.devices())


def check_pickling(name: str) -> None:
    """A converter can be pickled, whatever its device, and then does the same."""
    for device in (None, *find_framework(name).devices()):
        converter = Converter(name, device, copy=True, dtypes={"int16": "int32"})
        again = pickle.loads(pickle.dumps(converter))
        same = again.device == converter.device and repr(again) == repr(converter)
        _expect(same, f"{converter!r} came back as {again!r}")
        found = dtype_name(again(edges("int16")).dtype)
        _expect(found == "int32", f"{again!r} made {found} of int16")


def check_pairs(name: str) -> None:
    """Arrays cross to every other installed framework and back, bit for bit, and are private."""
    for other in (n for n in frameworks() if n != name and (n not in SEPARATE or n in sys.modules)):
        common = find_framework(name).dtypes(None) & find_framework(other).dtypes(None)
        for dtype in common.intersection(_all_dtypes()):
            for start, end in (name, other), (other, name):
                source = convert(edges(dtype), start)
                result = convert(source, end)
                overwrite(source)
                _expect_array(result, end, edges(dtype), f"{dtype} from {start} to {end}")


CHECKS: tuple[Callable[[str], None], ...] = (
    check_leaves,
    check_scalars,
    check_dtypes,
    check_layouts,
    check_ownership,
    check_sharing,
    check_containers,
    check_devices,
    check_pickling,
    check_pairs,
)


def check_framework(name: str) -> None:
    """Run all checks on a framework.

    Args:
        name: the name that it is registered by.

    Raises:
        AssertionError: with a line for each check that failed.
    """
    failures = [failure for check in CHECKS if (failure := _failure(check, name))]
    _expect(not failures, "\n".join([f"{name} does not conform:", *failures]))


def _failure(check: Callable[[str], None], name: str) -> str:
    try:
        check(name)
    except Exception as error:
        return f"{check.__name__}: {type(error).__name__}: {error}"
    return ""


def _both_ways(name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Targets, each with a function that makes a source for it."""
    yield name, lambda: at_offset(edges("float32"), 0)
    yield name, lambda: at_offset(edges("float32"), 4)
    yield name, lambda: convert(edges("float32"), name)
    yield "numpy", lambda: convert(edges("float32"), name)


def _see_each_other(source: Any, result: Any) -> bool:
    """Whether what is written on one side is seen on the other, or else they have one address."""
    for one, other in (result, source), (source, result):
        before = bits(other)
        if overwrite(one) and bits(other) != before:
            return True
    return bool(_seen(source).ctypes.data == _seen(result).ctypes.data)


def _expect(condition: bool, message: str) -> None:
    if not condition:  # no assert statement: python -O leaves those out
        raise AssertionError(message)


def _expect_array(result: Any, name: str, wanted: Array, what: str) -> None:
    _expect(_owner(result).name == name, f"{what}: it became a {type(result).__name__}")
    found = f"{dtype_name(result.dtype)}{tuple(result.shape)}"
    _expect(found == f"{wanted.dtype.name}{wanted.shape}", f"{what}: it became {found}")
    _expect(bits(result) == bits(wanted), f"{what}: {wanted!r} became {result!r}")


def _expect_error(kind: type[Exception], call: Callable[[], Any], *words: str) -> None:
    try:
        result = call()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        _expect(not missing, f"the message does not say {missing}: {error}")
    else:
        raise AssertionError(f"{result!r}, where a {kind.__name__} is due")


def _seen(array: Any) -> Array:
    """The array in NumPy: a view of it, or a copy."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np.asarray(array)
    seen = _owner(array).to_numpy(array, False)
    if seen is None:
        raise AssertionError(f"{array!r} has no counterpart in NumPy")
    return seen


def _owner(array: Any) -> Framework:
    owner = owner_of(type(array))
    if owner is None:
        raise AssertionError(f"{array!r} is no array")
    return owner


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
