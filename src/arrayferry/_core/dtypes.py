"""Every rule about dtypes: which one a leaf gets, which values it holds, and what may not be lost.

A leaf keeps its dtype where the target has it, and otherwise gets the next one that holds its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from arrayferry._core.framework import WIDE, Array
from arrayferry._core.speedups import speedups
from arrayferry.errors import NotInstalledError, OptionError

__all__ = [
    "LARGEST",
    "ML_DTYPES",
    "STANDARD",
    "WIDEST",
    "Cast",
    "Casts",
    "canonical_bools",
    "cast_exactly",
    "cast_for",
    "dtype_name",
    "dtype_names",
    "first_lost",
    "halved",
    "is_known",
    "next_available",
    "promotes",
]

_FLOAT8 = tuple(
    f"float8_{kind}"
    for kind in ["e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"]
)

# The dtypes that NumPy holds only through ml_dtypes. (The four-bit integers are not here: outside
# their own framework they have no counterpart.)
ML_DTYPES = frozenset({"bfloat16", *_FLOAT8})

# What each dtype may become, best first. Every step before a `!` holds all values; a step marked
# with `!` is checked value by value, or rounds as the framework's own users expect.
_LADDERS = {
    "bool": "bool",
    "int8": "int8 int16 int32 int64",
    "int16": "int16 int32 int64",
    "int32": "int32 int64",
    "int64": "int64 !int32",
    "uint8": "uint8 int16 int32 int64",
    "uint16": "uint16 int32 int64",
    "uint32": "uint32 int64 !int32",
    "uint64": "uint64 !int64 !uint32 !int32",
    "float16": "float16 float32 float64",
    "bfloat16": "bfloat16 float32 float64",
    **{name: f"{name} float32 float64" for name in _FLOAT8},
    "float32": "float32 float64",
    "float64": "float64 !float32",
    "complex64": "complex64 complex128",
    "complex128": "complex128 !complex64",
}

# What every array framework is expected to hold: the dtypes of the array API standard, and float16.
STANDARD = frozenset(_LADDERS) - ML_DTYPES

# The dtypes that hold what Python's numbers hold, or as much as any does.
WIDEST = {kind: np.dtype(name) for kind, name in WIDE.items()}

# The casts that `halved` makes.
_HALVES = {("float64", "float32"), ("int64", "int32"), ("uint64", "uint32")}

# The default dtypes of Python's numbers, and the largest number that each holds for certain.
LARGEST: dict[str, tuple[np.dtype[Any], float]] = {
    "int32": (np.dtype("int32"), float(2**31 - 1)),
    "int64": (np.dtype("int64"), float(2**63 - 1024)),
    "float32": (np.dtype("float32"), float(np.finfo(np.float32).max)),
    "float64": (np.dtype("float64"), float("inf")),
}

# A value may take a dtype of a later kind, never of an earlier one: nothing is rounded to an integer.
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def dtype_name(dtype: Any) -> str:
    """Return the plain name of any framework's dtype, of a scalar type, or of a name.

    >>> dtype_name(np.dtype(">f4")), dtype_name(np.int8), dtype_name("xp.bfloat16")
    ('float32', 'int8', 'bfloat16')
    """
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2].lower()


def dtype_names(dtypes: Mapping[Any, Any] | None) -> dict[str, str]:
    """Return the user's `dtypes=` as plain names, or raise when one of them is unknown."""
    if dtypes is not None and not isinstance(dtypes, Mapping):
        raise OptionError(f"dtypes={dtypes!r} is not valid", 'pass a mapping such as {"float64": "float32"}')
    names = {dtype_name(old): dtype_name(new) for old, new in (dtypes or {}).items()}
    for name in sorted({*names, *names.values()} - set(_LADDERS)):
        known = ", ".join(_LADDERS)
        raise OptionError(f"dtypes={dtypes!r}: there is no dtype {name!r}", f"the dtypes are {known}")
    return names


def is_known(dtype: Any) -> bool:
    """Return whether it is one of the dtypes that frameworks share."""
    return dtype_name(dtype) in _LADDERS


def promotes(old: np.dtype[Any], new: np.dtype[Any]) -> bool:
    """Return whether a cast from `old` to `new` stays within its kind or goes to a later one.

    >>> promotes(np.dtype("int8"), np.dtype("float32")), promotes(np.dtype("float32"), np.dtype("int8"))
    (True, False)
    """
    kind = "f" if old.name in ML_DTYPES else old.kind
    return _KINDS.get(kind, 9) <= _KINDS.get(new.kind, -1)


class Cast(NamedTuple):
    """How a leaf becomes one that the target has.

    Attributes:
        dtype: the dtype that it gets.
        same: whether it has that dtype already.
        check: whether values may be lost on the way.
        halves: whether `halved` makes it.
    """

    dtype: np.dtype[Any]
    same: bool
    check: bool
    halves: bool = False


# A dtype, its number (equal dtypes may have two: int64 and longlong), and what the target has now.
_CastKey: TypeAlias = "tuple[np.dtype[Any], int, frozenset[str]]"


class Casts(dict[_CastKey, "Cast | None"]):
    """The cast for each dtype, decided once."""

    def __init__(self, wanted: Mapping[str, str]) -> None:
        """Set the casts that the user asked for."""
        super().__init__()
        self._wanted = wanted

    def __missing__(self, key: _CastKey) -> Cast | None:
        dtype, _, available = key
        self[key] = cast = cast_for(dtype, available, self._wanted.get(dtype.name))
        return cast


def cast_for(dtype: np.dtype[Any], available: frozenset[str], wanted: str | None = None) -> Cast | None:
    """Return how a leaf of `dtype` becomes one that the target has; None when it has no counterpart there.

    Args:
        dtype: what the leaf is.
        available: the names of the dtypes that the target has.
        wanted: what the user asked for instead, on purpose and so without a check.

    >>> cast_for(np.dtype("int64"), frozenset({"int32", "float32"}))
    Cast(dtype=dtype('int32'), same=False, check=True, halves=True)
    >>> cast_for(np.dtype("int64"), frozenset({"int32", "float32"}), wanted="float32")
    Cast(dtype=dtype('float32'), same=False, check=False, halves=False)
    """
    if dtype.name in available and wanted is None:
        return _cast(dtype, np.dtype(dtype.name) if dtype.name in STANDARD else dtype.newbyteorder("="))
    for rung in _LADDERS.get(wanted or dtype.name, "").split():
        name = rung.lstrip("!")
        if name in available:
            return _cast(dtype, _named_dtype(name), check=rung.startswith("!"))
    return None


def _cast(old: np.dtype[Any], new: np.dtype[Any], check: bool = False) -> Cast:
    # By number, for NumPy has two dtypes for one where two C types are one: int64 and longlong.
    return Cast(new, old == new and old.num == new.num, check, check and (old.name, new.name) in _HALVES)


def next_available(name: str, available: frozenset[str]) -> str:
    """Return the name itself if the target has it, otherwise that of the next dtype that it has."""
    rungs = (rung.lstrip("!") for rung in _LADDERS[name].split())
    return next((rung for rung in rungs if rung in available), name)


def _named_dtype(name: str) -> np.dtype[Any]:
    if name in ML_DTYPES:
        try:
            import ml_dtypes
        except ImportError as error:
            what = f"NumPy has no {name} without ml_dtypes"
            raise NotInstalledError(what, "pip install ml-dtypes") from error

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extended
    return np.dtype(name)


# From a 64-bit array to one of 32 bits if nothing is lost, in one pass in C; None where it is in doubt.
halved: Callable[[Array], Array | None] = (lambda array: None) if speedups is None else speedups.halved

# So many bytes can be looked at in less time than it takes to call a ufunc.
_FEW_BYTES = 1024


def canonical_bools(bools: Array) -> Array:
    """Return the same array with each True as 1: to NumPy it may be any other byte, others rely on it."""
    if bools.nbytes > _FEW_BYTES or bools.tobytes().translate(None, b"\0\1"):
        np.not_equal(bools, False, out=bools)
    return bools


def cast_exactly(array: Array, dtype: np.dtype[Any]) -> tuple[Array, str]:
    """Return an array cast to a dtype, and the first value that was lost; floats may round to floats.

    >>> cast_exactly(np.array([1.0, 2.5]), np.dtype("int8"))
    (array([1, 2], dtype=int8), '2.5 at [1]')
    """
    with np.errstate(all="ignore"):
        # NumPy warns of an imaginary part that is dropped; here it is found below.
        new = (np.real(array) if dtype.kind != "c" else array).astype(dtype)
        return new, first_lost(array, new)


def first_lost(old: Array, new: Array) -> str:
    """Return the first value that the cast from `old` to `new` lost, with its place; empty if none was.

    A float may round, but a finite one may not become infinite; everything else must be equal.

    >>> first_lost(np.array([1, 2**40]), np.array([1, 0], np.int32))
    '1099511627776 at [1]'
    """
    # Counted, because the methods `any` and `all` are written in Python.
    is_widened = old.dtype.kind == new.dtype.kind or new.dtype.kind == "c" or old.dtype.name in ML_DTYPES
    rounds = old.dtype.kind not in "biu" and new.dtype.kind in "fc" and is_widened
    if rounds and np.count_nonzero(np.isfinite(new)) == new.size:
        return ""
    if not rounds:
        lost = (new != old) | (new.astype(old.dtype) != old)
    elif new.dtype.kind == "f":
        lost = np.isinf(new) & np.isfinite(old)
    else:
        parts = [(np.real(old), np.real(new)), (np.imag(old), np.imag(new))]
        lost = np.logical_or(*(np.isinf(after) & np.isfinite(before) for before, after in parts))
    if not np.count_nonzero(lost):
        return ""
    index = tuple(int(axis[0]) for axis in np.nonzero(lost)) if old.ndim else ()
    return f"{old[index]}" + (f" at {list(index)}" if index else "")
