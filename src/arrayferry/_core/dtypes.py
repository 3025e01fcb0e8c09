"""Which dtype a leaf gets: its own where the target has it, else the next that holds its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from arrayferry._core.framework import Array, dtype_name
from arrayferry._core.swift import swift
from arrayferry.errors import NotInstalledError, OptionError

__all__ = [
    "ML_DTYPES",
    "STANDARD",
    "Cast",
    "cast_for",
    "dtype_names",
    "first_lost",
    "narrowed",
    "is_known",
    "next_available",
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


class Cast(NamedTuple):
    """The dtype that a leaf gets; whether it has it already; whether values may be lost on the way."""

    dtype: np.dtype[Any]
    same: bool
    check: bool


def dtype_names(dtypes: Mapping[Any, Any] | None) -> dict[str, str]:
    """The user's `dtypes=` as plain names, refused when one of them is unknown."""
    if dtypes is not None and not isinstance(dtypes, Mapping):
        raise OptionError(f"dtypes={dtypes!r}", 'it maps old to new, as {"float64": "float32"}')
    names = {dtype_name(old): dtype_name(new) for old, new in (dtypes or {}).items()}
    for name in sorted({*names, *names.values()} - set(_LADDERS)):
        known = ", ".join(_LADDERS)
        raise OptionError(f"dtypes={dtypes!r}: there is no dtype {name!r}", f"the dtypes are {known}")
    return names


def is_known(dtype: Any) -> bool:
    """Whether it is one of the dtypes that frameworks share."""
    return dtype_name(dtype) in _LADDERS


def cast_for(dtype: np.dtype[Any], available: frozenset[str], wanted: str | None = None) -> Cast | None:
    """How a leaf of `dtype` becomes one that the target has; None when it has no counterpart there.

    Args:
        dtype: what the leaf is.
        available: the names of the dtypes that the target has.
        wanted: what the user asked for instead, on purpose and so without a check.

    >>> cast_for(np.dtype("int64"), frozenset({"int32", "float32"}))
    Cast(dtype=dtype('int32'), same=False, check=True)
    >>> cast_for(np.dtype("int64"), frozenset({"int32", "float32"}), wanted="float32")
    Cast(dtype=dtype('float32'), same=False, check=False)
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
    return Cast(new, old == new and old.num == new.num, check)


def next_available(name: str, available: frozenset[str]) -> str:
    """The name itself if the target has it, else of the next dtype that it has."""
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


# If the squares of numbers add up to no more, each of them is in the range of float32.
_SQUARES = 1e76


def narrowed(array: Array, dtype: np.dtype[Any]) -> Array | None:
    """The array in a narrower dtype, if it is plain that nothing is lost: a quick look, for small arrays.

    >>> narrowed(np.array([1, 2]), np.dtype("int32"))
    array([1, 2], dtype=int32)
    >>> narrowed(np.array([1, 2**40]), np.dtype("int32")) is None
    True
    """
    old = array.dtype
    if swift is not None:
        found: Array | None = swift.halved(array)
        if found is not None and found.dtype == dtype:
            return found
    if dtype.char == "f" and old.char == "d":
        return _rounded(array, dtype) if np.vdot(array, array) <= _SQUARES else None
    if dtype.kind == old.kind and dtype.kind in "iu":
        new = array.astype(dtype, order="C", subok=False)
        return new if new.astype(old).tobytes() == array.tobytes() else None
    return None


@np.errstate(all="ignore")  # the least numbers become zero
def _rounded(array: Array, dtype: np.dtype[Any]) -> Array:
    return array.astype(dtype, order="C", subok=False)


def first_lost(old: Array, new: Array) -> str:
    """The first value that the cast from `old` to `new` lost, with its place; empty if none was.

    A float may round, but a finite one may not become infinite; integers must be equal.

    >>> first_lost(np.array([1, 2**40]), np.array([1, 0], np.int32))
    '1099511627776 at [1]'
    """
    # Counted, for the methods `any` and `all` are written in Python.
    if new.dtype.kind in "fc" and np.count_nonzero(np.isfinite(new)) == new.size:
        return ""
    if new.dtype.kind == "f":
        lost = np.isinf(new) & np.isfinite(old)
    elif new.dtype.kind == "c":
        parts = [(np.real(old), np.real(new)), (np.imag(old), np.imag(new))]
        lost = np.logical_or(*(np.isinf(after) & np.isfinite(before) for before, after in parts))
    else:
        lost = new != old
    if not np.count_nonzero(lost):
        return ""
    index = tuple(int(axis[0]) for axis in np.nonzero(lost)) if old.ndim else ()
    return f"{old[index]}" + (f" at {list(index)}" if index else "")
