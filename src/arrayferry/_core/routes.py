"""How a leaf crosses: (source, target) to the function that carries it.

Within a framework, by its own copy; from one accelerator's memory to another framework on the same
accelerator, by DLPack; all else through NumPy, where memory can be looked at, owned and checked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from arrayferry._core import ownership
from arrayferry._core.containers import OBJECT_ARRAY
from arrayferry._core.dtypes import Cast, cast_for, first_lost, narrowed, next_available
from arrayferry._core.framework import Array, Decisions, Framework, describe, dtype_name
from arrayferry._core.tree import KEEP, Handler
from arrayferry.errors import FerryError, NarrowingError, SharingError, TransferError

__all__ = ["Job"]

# What a framework's own call raises when it cannot do something. Not MemoryError, nor what a user
# raises from a signal handler.
_REFUSALS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)

# The dtypes that Python's numbers have by default, and the numbers that they hold.
_LIMITS: dict[str, tuple[np.dtype[Any], float]] = {
    "int32": (np.dtype("int32"), float(2**31 - 1)),
    "int64": (np.dtype("int64"), float(2**63 - 1024)),
    "float32": (np.dtype("float32"), float(np.finfo(np.float32).max)),
    "float64": (np.dtype("float64"), float("inf")),
}


_WIDEST = {int: np.dtype("int64"), float: np.dtype("float64"), complex: np.dtype("complex128")}


_BOOL = np.dtype("bool")


def _canonical(bools: Array) -> Array:
    """The same array. A bool may be any non-zero byte to NumPy; others count on 0 and 1."""
    if bools.nbytes > _FEW_BYTES or bools.tobytes().translate(None, b"\0\1"):
        np.not_equal(bools, False, out=bools)
    return bools


# So many can be looked at in less time than it takes to call a ufunc.
_FEW_BYTES = 1024


# A dtype, its number (equal dtypes may have two: int64 and longlong), and what the target has now.
_CastKey: TypeAlias = "tuple[np.dtype[Any], int, frozenset[str]]"


class _Casts(dict[_CastKey, "Cast | None"]):
    """The cast for a dtype: decided once."""

    def __init__(self, wanted: dict[str, str]) -> None:
        super().__init__()
        self._wanted = wanted

    def __missing__(self, key: _CastKey) -> Cast | None:
        dtype, _, available = key
        self[key] = cast = cast_for(dtype, available, self._wanted.get(dtype.name))
        return cast


_scalar_cast = cache(cast_for)


class Job:
    """Where leaves go, and on which terms. It makes the handler for each kind of leaf."""

    def __init__(
        self,
        target: Framework,
        device: Any,
        copy: bool | None,
        wanted: dict[str, str],
        land: Callable[[Array], Any] | None = None,
    ) -> None:
        """Set the terms.

        Args:
            target: the framework.
            device: where to, in its own words.
            copy: whether memory is shared.
            wanted: the dtypes that the user asked for, by the name of what they replace.
            land: on the express lane, what makes the target's array of a private one. It may refuse.
        """
        self.target, self.device, self.copy, self.wanted = target, device, copy, wanted
        self._casts = _Casts(wanted)
        self._land = land
        plain = target.plain_dtypes(device) if land or copy is False else frozenset()
        self.plain = frozenset(np.dtype(name) for name in plain - wanted.keys())
        self.numpy_array: Handler = self._numpy_array  # one object, by which the express lane knows it
        self._narrower = Decisions(self._decide_narrower)
        self.has_bools = "bool" in target.dtypes(device) and "bool" not in wanted

    def _numpy_array(self, array: Array, references: int) -> Any:
        """The handler for `np.ndarray` and its subclasses."""
        dtype = array.dtype
        if dtype.hasobject:
            # An object array is a container; a record with objects in it has no counterpart.
            return OBJECT_ARRAY if dtype.kind == "O" else KEEP
        if self.copy is False and dtype in self.plain:
            try:
                return self.target.from_numpy(array, self.device, True)
            except _REFUSALS:
                pass  # so that it is refused as all else is, below
        # To copy a small array takes no longer than to prove that there is no need.
        if array.nbytes < ownership.LARGE and (found := self._landed(array)) is not None:
            return found
        mine = self.copy is None and references <= ownership.unshared and ownership.takeable(array)
        if self._land is not None and mine and dtype in self.plain:
            return self._land(array)
        return self._deliver(array, mine)

    def _landed(self, array: Array, mine: bool = False) -> Any:
        """What the express lane makes of an array without much ado; None if there is some."""
        if self._land is None:
            return None
        dtype = array.dtype
        if dtype in self.plain:
            return self._land(array if mine else np.array(array, order="C"))
        if dtype is _BOOL and self.has_bools:
            return self._land(_canonical(array if mine else np.array(array, order="C")))
        narrower = self._narrower[dtype, self.target.dtypes(self.device)]
        if narrower is None or array.nbytes >= ownership.LARGE:
            return None
        new = narrowed(array, narrower)
        return None if new is None else self._land(new)

    def _decide_narrower(self, key: tuple[np.dtype[Any], frozenset[str]]) -> np.dtype[Any] | None:
        """The dtype that arrays are checked to fit into, if there is no wider one."""
        dtype, available = key
        cast = self._casts[dtype, dtype.num, available]
        return cast.dtype if cast is not None and cast.check else None

    def numpy_scalar(self, scalar: Any, references: int) -> Any:
        """The handler for `np.generic`: a 0-d array of the same dtype."""
        array = np.asarray(scalar)
        if array.dtype.hasobject:
            return KEEP
        found = self._landed(array, mine=True)
        return self._deliver(array, mine=True) if found is None else found

    def python_scalar(self, scalar: Any, references: int) -> Any:
        """The handler for int, float and complex: a 0-d array of the target's default dtype."""
        default = self.target.scalars(self.device)[type(scalar)]
        if self._land is not None and not self.wanted and default in _LIMITS:
            dtype, most = _LIMITS[default]
            if -most <= scalar <= most:  # a NaN is not
                return self._land(np.array(scalar, dtype))
        wanted = self.wanted.get(default, default)
        try:
            wide = np.array(scalar, _WIDEST[type(scalar)])
        except OverflowError as error:
            what = f"int -> {wanted} {self.target.name}: {scalar} does not fit"
            raise NarrowingError(what, "no integer dtype holds it: make it a float or a string") from error
        cast = _scalar_cast(wide.dtype, self.target.dtypes(self.device), wanted)
        if cast is None:  # no complex numbers, say
            return KEEP
        on_purpose = cast.same or wanted != default or self.wanted.get(wide.dtype.name) == wanted
        return self._deliver(wide, mine=True, cast=Cast(cast.dtype, cast.same, not on_purpose))

    def array_of(self, source: Framework, cls: type) -> Handler:
        """The handler for the arrays of a framework that are of this type."""
        if source is self.target:
            way = self._within
        elif source.on_host is not None and self.target.from_dlpack is not None:
            way = self._from_device
        else:
            way = self._through_numpy

        snapshot = source.snapshot(cls) if self._land and source is not self.target else None

        def carry(array: Any, references: int) -> Any:
            try:
                if snapshot and (taken := snapshot(array)) is not None:
                    found = self._landed(taken, mine=True)
                    return self._deliver(taken, True, source) if found is None else found
                return way(source, array)
            except FerryError:
                raise
            except _REFUSALS as error:
                raise self._refusal(array, source, error) from error

        return carry

    def _within(self, source: Framework, array: Any) -> Any:
        name = dtype_name(array.dtype)
        wanted, share = self._wanted(name), self.copy is False
        if source.within is not None:
            found = source.within(array, self.device, wanted, share)
            return KEEP if found is None else found
        here = source.place(array)
        there = here if self.device is None else self.device
        if not share:
            return self._through_numpy(source, array, there)
        if there != here or wanted not in (None, name):
            what = f"{name} on {here} is not {wanted or name} on {there}"
            raise SharingError(what, "copy=None, which makes it so")
        return array

    def _wanted(self, name: str) -> str | None:
        """What the user wants instead of a dtype, as far as the target has it."""
        wanted = self.wanted.get(name)
        return None if wanted is None else next_available(wanted, self.target.dtypes(self.device))

    def _from_device(self, source: Framework, array: Any) -> Any:
        target, name = self.target, dtype_name(array.dtype)
        wanted, share = self._wanted(name), self.copy is False
        assert source.on_host is not None
        assert target.from_dlpack is not None
        assert target.within is not None
        if source.on_host(array) or (wanted or name) not in target.dtypes(self.device):
            return self._through_numpy(source, array)
        if share and source.immutable and not target.immutable:
            what = f"arrays of {source.name} never change, and those of {target.name} are writable"
            raise SharingError(what, "copy=None")
        try:
            there = target.from_dlpack(array)
        except _REFUSALS:  # this build of the target does not know that device
            return self._through_numpy(source, array)
        return target.within(there, self.device, wanted, share)

    def _through_numpy(self, source: Framework, array: Any, device: Any = None) -> Any:
        box: list[Any] = [source.to_numpy(array, self.copy is False)]
        if box[0] is None:
            return KEEP
        return self._deliver(box[0], mine=ownership.is_fresh(box), source=source, device=device)

    def _deliver(
        self,
        array: Array,
        mine: bool,
        source: Framework | None = None,
        device: Any = None,
        cast: Cast | None = None,
    ) -> Any:
        """Hand an array that is in NumPy to the target; a private one, unless sharing was asked."""
        target = self.target
        device = self.device if device is None else device
        cast = cast or self._casts[array.dtype, array.dtype.num, target.dtypes(device)]
        if cast is None:
            return KEEP
        try:
            if self.copy is False and not mine:
                if not array.dtype.isnative:
                    raise SharingError(f"{self._what(array, source)}: not in native byte order", "copy=None")
                if array.dtype != cast.dtype:
                    what = f"{self._what(array, source)} has no {array.dtype.name} to share"
                    raise SharingError(what, f"copy=None, which converts it to {cast.dtype.name}")
                return target.from_numpy(array if cast.same else array.view(cast.dtype), device, True)
            if not (mine and cast.same):
                array = self._private(array, cast, source)
            if cast.dtype.kind == "b":
                _canonical(array)
            if self._land is not None and device is self.device:
                return self._land(array)
            return target.from_numpy(array, device, False)
        except FerryError:
            raise
        except _REFUSALS as error:
            raise self._refusal(array, source, error) from error

    def _private(self, array: Array, cast: Cast, source: Framework | None) -> Array:
        if cast.same or (array.dtype.kind in "iu" and cast.dtype.kind in "iu"):  # casts that never warn
            copy = ownership.private_copy(array, cast.dtype, self.target.alignment)
        else:
            with np.errstate(all="ignore"):  # a cast is either checked below, or made on purpose
                copy = ownership.private_copy(array, cast.dtype, self.target.alignment)
        if cast.check and (lost := first_lost(array, copy)):
            old, new = array.dtype.name, cast.dtype.name
            hint = f'cast on purpose with dtypes={{"{old}": "{new}"}}, or to a dtype that holds it'
            what = f"{describe(array, source)} -> {new} {self.target.name}: {lost} does not fit"
            raise NarrowingError(what, f"{self.target.wider}; or {hint}" if self.target.wider else hint)
        return copy

    def _refusal(self, array: Any, source: Framework | None, error: Exception) -> TransferError:
        what = f"{self._what(array, source)}: {type(error).__name__}: {error}"
        return TransferError(what, "the framework itself refused, see its own message")

    def _what(self, array: Any, source: Framework | None) -> str:
        return f"{describe(array, source)} -> {self.target.name}"
