"""Whose memory is it? The proof that nobody else sees an array, and the copy where there is no proof.

Memory is taken over only if all of the following hold; any doubt means a copy:

* it is a plain `np.ndarray`: a subclass may carry state that sees the data;
* it owns its data and has no base: a view's memory belongs to somebody else;
* its memory is C-contiguous, aligned, native and writable: otherwise a copy is needed anyway;
* it has no weak references and is not an object array: both give others a way in;
* its reference count is that of an object that only its container holds, and the same is true of
  every container on the way to it. Only exact `dict`, `list` and `tuple` objects qualify as containers
  here: nobody can hold one of those without being counted.

Why a count proves it: a container's reference is counted, so if the count is one, nobody else has a
counted reference. And an uncounted one is never alone. From Python 3.14 on, the interpreter borrows
(`LOAD_FAST_BORROW`): it puts the value of a local variable on its stack, or passes it to a function, without
counting it; but that variable holds a counted reference, and lives until the borrower is done. What
outlives the borrower is counted: what goes into a container, a cell, a generator or a frame object, and
what is replaced through `f_locals`. C code that borrows has the same duty. So whoever could see the value
has either a counted reference, or one that is backed by somebody else's counted reference.

Weak references are asked about first, then references are counted, and nobody's code runs in between: not a
hook of the lookup, a tracer, a signal handler or another thread. Otherwise, a weak reference could become a
counted one after the count, and be gone when it is looked for. What passes both questions can be reached by
nobody from then on, whatever code runs before it is taken over.

An interpreter may count differently one day. So its version is not checked: instead, at import, `has_proof`
asks about values that somebody is known to hold, in Python and in C, and if one answer is wrong, every leaf
is copied. What the walk counts for an unshared object is calibrated at import, too, but never above what the
walk itself can hold: a tracer that keeps local variables is counted as well, and may be off later. The walk
in C needs no calibration, and does not depend on that of the walk in Python. In a free-threaded build, only
CPython itself can tell, and only C code can ask it, from 3.14 on; otherwise every leaf is copied. There, an
object that ever had a weak reference is never unique.

Nothing is proven against a hook that finds objects without a reference, by `gc.get_referrers` or in the
frames of the walk, while the walk is running.

`count_holders` and `can_be_taken` are the proof in Python; `is_unshared` and `is_takeable` in `_speedups.c`
are their counterparts in C.
"""

from __future__ import annotations

import math
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from sys import getrefcount
from typing import Any, TypeAlias
from weakref import getweakrefcount

import numpy as np

from arrayferry._core.framework import Array
from arrayferry._core.interruptions import attempt
from arrayferry._core.registry import framework_of, source_of
from arrayferry._core.speedups import speedups

# From this many bytes on, taking over aligned memory beats copying it once more.
LARGE = 1 << 18

# C_CONTIGUOUS | OWNDATA | ALIGNED | WRITEABLE, as in numpy/ndarraytypes.h.
_TAKEABLE = 0x0001 | 0x0004 | 0x0100 | 0x0400

# What `count_holders` returns for an object that only its container holds, as the walk sees it: calibrated
# there. Until then, and where a count proves nothing, no count is low enough.
unshared = -1


def count_holders(values: Collection[Any]) -> int:
    """Return the number of references to the one value in a collection: the weak ones, then the others.

    It is one call of `sum`, in C, so nobody's code runs between the two questions.
    """
    return sum(chain(map(getweakrefcount, values), map(getrefcount, values)))


def can_be_taken(array: Array) -> bool:
    """Return whether all conditions hold that `count_holders` does not tell: none of `TAKING` is so."""
    return (
        type(array) is np.ndarray
        and array.flags.num & _TAKEABLE == _TAKEABLE
        and array.base is None
        and array.dtype.isnative
        and not array.dtype.hasobject
        and not _has_odd_strides(array)
    )


def _has_odd_strides(array: Array) -> bool:
    """Return whether strides are odd, if only those of an axis with fewer than two elements."""
    if array.flags.c_contiguous and 1 not in array.shape and 0 not in array.shape:
        return False
    return any(stride < 0 or stride % (array.itemsize or 1) for stride in array.strides)


# Why memory cannot be used as it is: by code, a text, and a function that tells whether it is so.
OBSTACLES: dict[str, tuple[str, Callable[[Array], bool]]] = {
    "subclass": ("{a_type} may carry more than its values", lambda array: type(array) is not np.ndarray),
    "view": ("it is a view of other memory", lambda array: array.base is not None or not array.flags.owndata),
    "read-only": ("it is read-only", lambda array: not array.flags.writeable),
    "byte-order": ("it is not in native byte order", lambda array: not array.dtype.isnative),
    "not-contiguous": ("it is not in C order", lambda array: not array.flags.c_contiguous),
    "unaligned": ("its elements are not aligned", lambda array: not array.flags.aligned),
    "weak-reference": ("somebody has a weak reference to it", lambda array: getweakrefcount(array) > 0),
    "objects": ("it contains objects", lambda array: array.dtype.hasobject),
    "odd-strides": ("its strides are negative, or not multiples of its elements", _has_odd_strides),
    "odd-bools": (
        "its bools are not 0 and 1",
        lambda array: array.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1,
    ),
}

# What keeps memory from being taken over, in the order in which it is told.
TAKING = tuple(code for code in OBSTACLES if code != "odd-bools")

# What keeps memory from being shared by a framework whose arrays are writable and strided, as NumPy's are.
STRIDED = "read-only", "unaligned", "odd-strides"


def obstacle(array: Array, codes: Iterable[str]) -> str:
    """Return the first of some codes of `OBSTACLES` that holds for an array; empty if none does.

    >>> obstacle(np.zeros(3), TAKING), obstacle(np.zeros(3)[::-1], TAKING)
    ('', 'view')
    """
    return next((code for code in codes if OBSTACLES[code][1](array)), "")


# The question of the proof: does this list alone hold its one value?
IsUnshared: TypeAlias = Callable[[list[Any]], bool]

_holders = count_holders([object()])


def _is_unshared(box: list[Any]) -> bool:
    return count_holders(box) <= _holders


def has_proof(is_unshared: IsUnshared) -> bool:
    """Return whether the answers are right on this interpreter, whatever it counts or borrows."""
    local, in_cell, box = object(), object(), [object()]
    suspended = _suspended()
    return is_unshared([object()]) and not (
        is_unshared([local])
        or _is_argument_unshared(is_unshared, local)
        or is_unshared([next(suspended)])  # which another frame still holds
        or (lambda: is_unshared([in_cell]))()
        or (box[0], is_unshared(box))[1]  # which is on the stack, too
        or any(is_unshared(box) for _ in box)
        or next(map(_is_argument_unshared, [is_unshared], [object()]))  # which the list still holds
    )


def _suspended() -> Iterator[object]:
    local = object()
    yield local


def _is_argument_unshared(is_unshared: IsUnshared, argument: object) -> bool:
    """Ask about an argument that this frame has given up: the caller may only have lent it."""
    box = [argument]
    del argument
    return is_unshared(box)


_ask: IsUnshared = _is_unshared if speedups is None else speedups.is_unshared

# Whether memory is taken over at all; in the walk in Python, only if it can also calibrate `unshared`.
REFCOUNTS_RELIABLE = (
    sys.implementation.name == "cpython"
    and (speedups is not None or not sysconfig.get_config_var("Py_GIL_DISABLED"))
    and has_proof(_ask)
)


def is_fresh(box: list[Array]) -> bool:
    """Return whether the one array in the box was just made: nobody but the box holds it."""
    # Most are views: no need to ask.
    return REFCOUNTS_RELIABLE and box[0].base is None and _ask(box) and can_be_taken(box[0])


def have_common_memory(array: Any, other: Any) -> bool:
    """Return whether two arrays, of any frameworks, share memory, as far as NumPy can see it."""
    views = view_of(array), view_of(other)
    return all(view is not None for view in views) and np.may_share_memory(*views)


def view_of(array: Any) -> Array | None:
    """Return an array of any framework as NumPy sees it in place; None for anything else."""
    # Looking must not break anything, and each framework refuses in its own way.
    return None if framework_of(type(array)) is None else attempt(source_of(array).view, array)


def private_copy(array: Array, dtype: np.dtype[Any], alignment: int = 0) -> Array:
    """Return the values in new, C-ordered, native memory, cast to `dtype`."""
    if array.nbytes < LARGE:
        alignment = 0
    if not alignment and array.dtype.num == dtype.num:  # otherwise NumPy may keep the old, equal dtype
        return np.array(array, dtype=dtype, order="C")
    copy = empty(array.shape, dtype, alignment)
    np.copyto(copy, array, casting="unsafe")
    return copy


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], alignment: int = 0) -> Array:
    """Return new memory that begins at a multiple of so many bytes."""
    if not alignment:
        return np.empty(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + alignment, np.uint8)
    start = -raw.__array_interface__["data"][0] % alignment  # `ctypes` takes ten times as long
    return raw[start : start + size].view(dtype).reshape(shape)
