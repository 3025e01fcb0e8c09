"""Every rule about dtypes: which one a leaf gets, which values it holds, and what may not be lost.

A leaf keeps its dtype if the target has it, and otherwise gets the next one that holds its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from arrayferry._core.framework import WIDE, Array
from arrayferry._core.speedups import speedups
from arrayferry.errors import NotInstalledError, OptionError

# The smallest and the largest value of each integer dtype.
_INTEGERS: dict[str, tuple[int, int]] = {
    "bool": (0, 1),
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}

# The range in which a dtype holds every integer; for a float it follows from its precision in bits.
_PRECISIONS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_RANGES = _INTEGERS | {name: (-(1 << bits), 1 << bits) for name, bits in _PRECISIONS.items()}

# The dtypes of the real and imaginary parts.
_PARTS = {"complex64": "float32", "complex128": "float64"}

_FLOAT8 = [f"float8_{bits}" for bits in "e3m4 e4m3 e4m3b11fnuz e4m3fn e4m3fnuz e5m2 e5m2fnuz e8m0fnu".split()]

# The dtypes that NumPy holds only through ml_dtypes. (The four-bit integers are not listed:
# outside their own framework they have no counterpart.)
ML_DTYPES = frozenset({"bfloat16", *_FLOAT8})

# What each dtype may become, best first. A rung that cannot hold all of its values (see `can_hold`)
# is checked value by value, or rounds as the framework's own users expect.
_LADDERS = {
    "bool": "bool",
    "int8": "int8 int16 int32 int64",
    "int16": "int16 int32 int64",
    "int32": "int32 int64",
    "int64": "int64 int32",
    "uint8": "uint8 int16 int32 int64",
    "uint16": "uint16 int32 int64",
    "uint32": "uint32 int64 int32",
    "uint64": "uint64 int64 uint32 int32",
    **{name: f"{name} float32 float64" for name in ("float16", "bfloat16", *_FLOAT8)},
    "float32": "float32 float64",
    "float64": "float64 float32",
    "complex64": "complex64 complex128",
    "complex128": "complex128 complex64",
}

# What every array framework is expected to hold: the dtypes of the array API standard, and float16.
STANDARD = frozenset(_LADDERS) - ML_DTYPES

# The dtypes that hold all of Python's numbers, or as many of them as any dtype does.
WIDEST = {kind: np.dtype(name) for kind, name in WIDE.items()}

# The dtypes of other packages have numbers from here on: NPY_USERDEF in numpy/ndarraytypes.h.
USER_DEFINED = 256

# The casts that `halved` can make.
_HALVES = {("float64", "float32"), ("int64", "int32"), ("uint64", "uint32")}

# The default dtypes of Python's numbers, and a number up to which each is certain to hold all of them.
LARGEST = {"int32": 2.0**31 - 1, "int64": 2.0**63 - 1024, "float32": 3.4e38, "float64": float("inf")}

# A value may take a dtype of a later kind, never of an earlier one: nothing is rounded to an integer.
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}

# The letters of the kinds, by what names begin with; NumPy's long ones may have no number of bits.
_NAMES = {"b": "bool", "i": "int", "u": "uint", "f": "float bfloat longdouble", "c": "complex clongdouble"}
_LETTERS = {name: letter for letter, names in _NAMES.items() for name in names.split()} | {"object": "O"}


def dtype_name(dtype: Any) -> str:
    """Return the plain name of any framework's dtype, of a scalar type, or of a qualified name.

    >>> dtype_name(np.dtype(">f4")), dtype_name(np.int8), dtype_name("xp.bfloat16")
    ('float32', 'int8', 'bfloat16')
    """
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    plain = str(name).rpartition(".")[2]
    return plain if "[" in plain else plain.lower()  # the D of datetime64[D] is a unit


def dtype_names(dtypes: Mapping[Any, Any] | None) -> dict[str, str]:
    """Return the user's `dtypes=` as plain names, or raise if one of them is unknown."""
    if dtypes is not None and not isinstance(dtypes, Mapping):
        raise OptionError(f"dtypes={dtypes!r} is not valid", 'pass a mapping such as {"float64": "float32"}')
    names = {dtype_name(old): dtype_name(new) for old, new in (dtypes or {}).items()}
    for name in sorted({*names, *names.values()} - set(_LADDERS)):
        known = ", ".join(_LADDERS)
        raise OptionError(f"dtypes={dtypes!r}: there is no dtype {name!r}", f"the dtypes are {known}")
    return names


def is_known(dtype: Any) -> bool:
    """Return whether a dtype is one of those that frameworks share."""
    return dtype_name(dtype) in _LADDERS


def kind_of(dtype: Any) -> str:
    """Return NumPy's letter for the kind of any framework's dtype; V for what is neither number nor object.

    >>> kind_of("bfloat16"), kind_of(np.dtype("uint8")), kind_of(np.dtype("datetime64[s]"))
    ('f', 'u', 'V')
    """
    return _LETTERS.get(dtype_name(dtype).partition("_")[0].rstrip("0123456789"), "V")


def can_hold(dtype: Any, other: Any) -> bool:
    """Return whether every value of `other` is exactly a value of `dtype`; False if in doubt.

    This is not promotion: NumPy promotes int64 and float32 to float64, which rounds large integers.

    Args:
        dtype: the wider dtype: a name, or any framework's dtype.
        other: the narrower one.

    >>> can_hold("float64", "int32"), can_hold("float32", "int32"), can_hold("int32", "uint32")
    (True, False, False)
    """
    name, held = dtype_name(dtype), dtype_name(other)
    if name in _PARTS:
        return can_hold(_PARTS[name], _PARTS.get(held, held))
    if name in _RANGES and held in _INTEGERS:
        (low, high), (lowest, highest) = _RANGES[name], _INTEGERS[held]
        return low <= lowest and highest <= high
    # Up its ladder, a float loses nothing; but the one of float64 goes down.
    return name == held or (held != "float64" and name in _LADDERS.get(held, "").split())


def promotes(old: np.dtype[Any], new: np.dtype[Any]) -> bool:
    """Return whether a cast from `old` to `new` stays within one kind or goes to a later one.

    >>> promotes(np.dtype("int8"), np.dtype("float32")), promotes(np.dtype("float32"), np.dtype("int8"))
    (True, False)
    """
    return _KINDS.get(kind_of(old), 9) <= _KINDS.get(new.kind, -1)


class Cast(NamedTuple):
    """How to cast a leaf to a dtype that the target has.

    Attributes:
        dtype: the dtype that it gets.
        same: whether it has that dtype already.
        check: whether values may be lost on the way.
        halves: whether `halved` can make the cast.
    """

    dtype: np.dtype[Any]
    same: bool
    check: bool
    halves: bool = False


def cast_for(dtype: np.dtype[Any], available: frozenset[str], wanted: str | None = None) -> Cast | None:
    """Return how to cast a leaf of `dtype` to one that the target has; None if it has no counterpart there.

    Args:
        dtype: the leaf's dtype.
        available: the names of the dtypes that the target has.
        wanted: the dtype that the user asked for instead. A cast to it is deliberate, and not checked; one to
            the next dtype that the target has is checked.

    >>> cast_for(np.dtype("int64"), frozenset({"int32", "float32"}))
    Cast(dtype=dtype('int32'), same=False, check=True, halves=True)
    >>> cast_for(np.dtype("int64"), frozenset({"int32", "float32"}), wanted="float32")
    Cast(dtype=dtype('float32'), same=False, check=False, halves=False)
    """
    name = next_available(wanted or dtype.name, available)
    if name not in available:
        return None
    new = numpy_dtype(name) if name in _LADDERS else dtype  # such as int4, which only its own framework has
    # Also by number: NumPy has two equal dtypes where two C types are the same, such as int64 and longlong.
    same = dtype == new and dtype.num == new.num
    check = name != wanted and not can_hold(name, dtype)
    return Cast(new, same, check, halves=check and (dtype.name, name) in _HALVES)


def next_available(name: str, available: frozenset[str]) -> str:
    """Return the first name on a dtype's ladder that the target has; the name itself if there is none."""
    return next((rung for rung in _LADDERS.get(name, "").split() if rung in available), name)


@cache
def defaults_with(float_dtype: Any) -> dict[type, str]:
    """Return the dtypes of Python's numbers where the user can choose the one of floats."""
    name = dtype_name(float_dtype)
    return {int: "int64", float: name, complex: "complex128" if name == "float64" else "complex64"}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of one of the names in `STANDARD` and `ML_DTYPES`, or raise if ml_dtypes lacks it."""
    if name not in ML_DTYPES:
        return np.dtype(name)
    try:
        scalar: type = getattr(import_module("ml_dtypes"), name)
    except (ImportError, AttributeError) as error:
        raise NotInstalledError(f"NumPy has no {name} without ml_dtypes", "pip install ml-dtypes") from error
    return np.dtype(scalar)


# From a 64-bit array to a 32-bit one if nothing is lost, in one pass in C; None if in doubt.
halved: Callable[[Array], Array | None] = (lambda array: None) if speedups is None else speedups.halved

# Up to this many bytes can be checked in less time than it takes to call a ufunc.
_FEW_BYTES = 1024


def canonical_bools(bools: Array) -> Array:
    """Return the same array with each True stored as 1: NumPy allows any nonzero byte, others rely on 1."""
    if bools.nbytes > _FEW_BYTES or bools.tobytes().translate(None, b"\0\1"):
        np.not_equal(bools, False, out=bools)
    return bools


def cast_exactly(array: Array, dtype: np.dtype[Any]) -> tuple[Array, str]:
    """Return an array cast to a dtype, and the first value that was lost; floats may round to floats.

    >>> cast_exactly(np.array([1.0, 2.5]), np.dtype("int8"))
    (array([1, 2], dtype=int8), '2.5 at [1]')
    """
    with np.errstate(all="ignore"):
        new = castable(array, dtype).astype(dtype)
        return new, first_lost(array, new)


def castable(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array that NumPy casts to a dtype as it would this one, without a warning or an error."""
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        return np.real(array)  # NumPy would warn about the imaginary parts
    # NumPy cannot cast between all of ml_dtypes' dtypes; float32 holds every one of them.
    is_between = array.dtype.num >= USER_DEFINED <= dtype.num and array.dtype.num != dtype.num
    return array.astype(np.float32) if is_between else array


def first_lost(old: Array, new: Array) -> str:
    """Return the first value that the cast from `old` to `new` lost, with its index; empty if none was.

    A float may round, but a finite one may not become infinite; everything else must be equal.

    >>> first_lost(np.array([1, 2**40]), np.array([1, 0], np.int32))
    '1099511627776 at [1]'
    """
    # Counted, because the array methods `any` and `all` run Python code, which is slower.
    rounds = old.dtype.kind == new.dtype.kind and new.dtype.kind in "fc"
    if rounds and np.count_nonzero(np.isfinite(new)) == new.size:
        return ""
    with np.errstate(all="ignore"):
        lost = _is_lost(old, new)
    if not np.count_nonzero(lost):
        return ""
    index = tuple(int(axis[0]) for axis in np.nonzero(lost)) if old.ndim else ()
    return f"{old[index]}" + (f" at {list(index)}" if index else "")


def _is_lost(old: Array, new: Array) -> Any:
    """Return where the cast from `old` to `new` lost a value, whatever casts that overflow do here."""
    if old.dtype.kind == "c":
        imaginary = _is_lost(np.imag(old), np.imag(new)) if new.dtype.kind == "c" else np.imag(old) != 0
        return _is_lost(np.real(old), np.real(new)) | imaginary
    new = np.real(new) if new.dtype.kind == "c" else new
    if old.dtype.kind not in "biu" and new.dtype.kind not in "biu":
        return (np.isnan(old) != np.isnan(new)) | (np.isinf(old) != np.isinf(new))
    if old.dtype.kind not in "biu":
        return _is_outside(old, new.dtype) | (np.trunc(old) != old)
    outside = (new < 0) != (old < 0) if new.dtype.kind in "biu" else _is_outside(new, old.dtype)
    return outside | (new.astype(old.dtype) != old)


def _is_outside(floats: Array, dtype: np.dtype[Any]) -> Any:
    """Return where floats are NaN, or outside the range of an integer dtype."""
    low, high = _INTEGERS[dtype.name]
    wide = floats if floats.dtype.itemsize >= 8 else floats.astype(np.float64)
    return ~((wide >= float(low)) & (wide < float(high + 1)))  # both bounds are exact
