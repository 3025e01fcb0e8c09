"""Arrays that are difficult to convert, of every dtype and in every layout, and what to do with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from arrayferry._core.convert import convert
from arrayferry._core.dtypes import ML_DTYPES, STANDARD, numpy_dtype
from arrayferry._core.framework import Array
from arrayferry._core.interruptions import attempt
from arrayferry._core.ownership import empty
from arrayferry._core.registry import framework_of, source_of


def bits(array: Any) -> bytes:
    """Return the values of any framework's array as bytes, in C order and native byte order.

    Example:
        >>> import numpy as np
        >>> from arrayferry.testing import bits
        >>> bits(np.array([1, 256], ">i2")) == bits(np.array([1, 256], "<i2"))
        True
    """
    values = in_numpy(array)
    return np.asarray(values, values.dtype.newbyteorder("=")).tobytes()


def in_numpy(array: Any) -> Array:
    """Return a NumPy view or copy of any framework's array."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np.asarray(array)
    values = None if framework_of(type(array)) is None else source_of(array).read(array)
    if values is None:
        raise AssertionError(f"{array!r} is not an array of a registered framework that NumPy can hold")
    return values


def overwrite(array: Any) -> bool:
    """Change every byte of an array in place; return False if it cannot be written to.

    Example:
        >>> import numpy as np
        >>> from arrayferry.testing import overwrite
        >>> array = np.zeros(2, np.uint8)
        >>> overwrite(array), array
        (True, array([1, 1], dtype=uint8))
    """
    if not isinstance(array, np.ndarray):
        values = np.array(in_numpy(array), order="C")
        overwrite(values)
        try:
            array[...] = convert(values, framework_of(type(array)) or "numpy")
        except (TypeError, RuntimeError, ValueError, IndexError):  # it cannot be set: ever, or in this dtype
            return False
        if bits(array) != bits(values):
            raise AssertionError(f"{array!r} ignores what is written to it")
        return True
    while isinstance(array.base, np.ndarray):
        array = array.base
    if array.flags.writeable:
        memory = array.ravel(order="K").view(np.uint8)
        if array.size and not np.shares_memory(memory, array):
            raise AssertionError("only a copy was overwritten")
        memory ^= 1
    return bool(array.flags.writeable)


def edges(dtype: str) -> Array:
    """Return an array of values that are easily lost: NaN with a payload, -0.0, denormals, extremes.

    Example:
        >>> from arrayferry.testing import edges
        >>> edges("int8")
        array([[   0,    1, -128],
               [-127,  127,   -1]], dtype=int8)
    """
    element = numpy_dtype(dtype)
    if element.kind == "b":
        return np.array([[True, False, True], [False, False, True]])
    parts = 2 if element.kind == "c" else 1
    size = element.itemsize // parts
    sign = 1 << 8 * size - 1
    numbers = np.array([0, 1, sign, sign + 1, sign - 1, 2 * sign - 1], f"u{size}")
    array: Array = numbers.repeat(parts).view(element).reshape(2, 3).copy()
    return array


def all_dtypes() -> list[str]:
    """Return the names of all dtypes that NumPy can hold here."""
    return sorted(STANDARD | {name for name in ML_DTYPES if attempt(numpy_dtype, name) is not None})


def at_offset(array: Array, offset: int) -> Array:
    """Return a copy whose address is `offset` bytes beyond a multiple of 64.

    Example:
        >>> import numpy as np
        >>> from arrayferry.testing import at_offset
        >>> at_offset(np.arange(3.0), 4).ctypes.data % 64
        4
    """
    memory = empty((array.nbytes + offset,), np.dtype(np.uint8), 64)
    copy: Array = memory[offset:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _in_record(array: Array) -> Array:
    record = np.zeros(array.shape, [("before", "u1"), ("values", array.dtype)])
    record["values"] = array
    return record["values"]


def _byte_swapped(array: Array) -> Array:
    return array if array.dtype.kind == "V" else array.astype(array.dtype.newbyteorder("S"))


# By name, a function that returns the values of an array (or some of them) in another layout.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "plain": lambda array: array,
    "flipped": lambda array: np.flip(array) if array.ndim else array,
    "stepped": lambda array: np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array,
    "transposed": np.transpose,
    "fortran": np.asfortranarray,
    **{f"offset by {offset}": partial(at_offset, offset=offset) for offset in (0, 1, 4, 16, 32, 63)},
    "read-only": lambda array: np.broadcast_to(array, array.shape),
    "broadcast": lambda array: np.broadcast_to(array, (2, *array.shape)),
    "byte-swapped": _byte_swapped,
    "in a record": _in_record,
    "0-d": lambda array: np.resize(array, 1).reshape(()),
    "empty": lambda array: array[..., :0] if array.ndim else array,
}
