"""Convert one leaf from its source to the target.

Within a framework, its own copy is used; between frameworks on the same accelerator, DLPack; everything
else goes through NumPy, where memory can be seen, owned and checked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from arrayferry._core import ownership
from arrayferry._core.containers import NUMPY_ARRAY, OBJECT_ARRAY
from arrayferry._core.dtypes import (
    LARGEST,
    WIDEST,
    Cast,
    Casts,
    can_hold,
    canonical_bools,
    cast_exactly,
    cast_for,
    castable,
    dtype_name,
    first_lost,
    halved,
    next_available,
)
from arrayferry._core.framework import Array, Framework
from arrayferry._core.interruptions import REFUSALS as _REFUSALS
from arrayferry._core.interruptions import is_interruption
from arrayferry._core.registry import describe
from arrayferry._core.speedups import speedups
from arrayferry._core.walk import KEEP
from arrayferry.errors import FerryError, NarrowingError, SharingError, TransferError

__all__ = ["LeafConverter"]


class LeafConverter:
    """Converts leaves to one target. Its methods are the handlers of a walk.

    Args:
        target: the framework.
        device: the destination, as the framework's own object.
        copy: as for `Converter`.
        wanted: the dtypes that the user asked for, by the name of what they replace.

    Attributes:
        array_handler: `numpy_array`, bound once: the walk in C compares it by identity.
        from_private: makes the target's array from memory that nobody else sees; None without a fast way.
        makes: the type that `from_private` returns if the array has values; None if the type does not tell.
        plain: the dtypes of arrays that `from_private` takes as they are, at all times.
        plain_numbers: the same as a bit mask, with one bit for the number of each dtype.
        has_bools: whether `from_private` takes bools that are stored as 0 and 1.
        hands_over: whether the walk in C may call `from_private`.
        takes: whether memory that nobody else sees is taken over: `copy=None`.
        shares: whether memory that others see is shared: `copy=False`.
        large: the size in bytes from which copies are aligned, which is left to Python.
    """

    def __init__(self, target: Framework, device: Any, copy: bool | None, wanted: dict[str, str]) -> None:
        self.target, self.device, self.copy, self.wanted = target, device, copy, wanted
        self._casts = Casts(wanted)
        self._number_casts: dict[Any, Cast | None] = {}
        fast = target._fast.from_private(device)
        plain = target._fast.plain_dtypes(device) - wanted.keys() if fast else frozenset()
        self.plain = frozenset(map(np.dtype, plain))
        self.has_bools = fast is not None and "bool" in target.dtypes(device) and "bool" not in wanted
        self.shares = copy is False
        self.from_private = fast
        self.makes = target._fast.makes() if fast else None
        self._is_numpy = target.name == "numpy"
        self._alignment = target._fast.alignment
        # The default dtypes that need no cast, and the largest number that each holds.
        known = {} if wanted else LARGEST
        self._largest = {name: limit for name, limit in known.items() if limit[0] in self.plain}
        # By number, which may differ between equal dtypes: int64 and longlong.
        numbers = {dtype.num for dtype in self.plain}
        self._fast_numbers = numbers | {np.dtype(bool).num} if self.has_bools else numbers
        # The dtypes that need neither a cast nor a check of the values.
        self._taken_as_is = frozenset() if self.shares else frozenset(numbers)
        self.array_handler = self.numpy_array
        self.plain_numbers = sum(1 << number for number in numbers)
        self.hands_over = fast is not None and (copy is not False or target._fast.aliases)
        self.takes = copy is None
        self.large = ownership.LARGE if self._alignment else sys.maxsize

    def numpy_array(self, array: Array, owned: bool) -> Any:
        """Convert an `np.ndarray` or an instance of a subclass."""
        dtype = array.dtype
        if dtype.hasobject:
            # An object array is a container; a record with objects in it has no counterpart.
            return OBJECT_ARRAY if dtype.kind == "O" else self.array_without_counterpart(array, owned)
        owned = owned and self.copy is None and ownership.can_be_taken(array)
        return self._deliver(array, owned)

    def numpy_scalar(self, scalar: Any, owned: bool) -> Any:
        """Convert an `np.generic` to a 0-d array of the same dtype."""
        array = np.asarray(scalar)
        dtype = array.dtype
        if dtype.hasobject or self._casts[dtype, dtype.num, self.target.dtypes(self.device)] is None:
            # NumPy holds all of its own dtypes; of its scalars, only records are mutable.
            if not self._is_numpy:
                return KEEP
            is_shared = self.shares or not isinstance(scalar, np.void)
            return scalar if is_shared else NUMPY_ARRAY if dtype.hasobject else scalar.copy()
        return self._deliver(array, owned=True)

    def array_without_counterpart(self, array: Array, owned: bool) -> Any:
        """Keep an array whose dtype or mask only NumPy has; as a target, NumPy takes it like any other."""
        if not self._is_numpy:
            return KEEP
        owned = owned and self.copy is None and ownership.can_be_taken(array)
        if array is np.ma.masked or owned or self.shares:  # the first is a singleton
            return array
        if array.dtype.hasobject or getattr(array, "__dict__", None):
            return NUMPY_ARRAY
        return np.array(array, copy=True, subok=True)

    def python_scalar(self, scalar: Any, owned: bool) -> Any:
        """Convert an int, float or complex to a 0-d array of the target's default dtype."""
        default = self.target.default_dtypes(self.device)[type(scalar)]
        if default in self._largest:
            dtype, largest = self._largest[default]
            if -largest <= scalar <= largest:  # False for a NaN
                return self._hand_over(np.array(scalar, dtype))
        key = default, WIDEST[type(scalar)], self.target.dtypes(self.device)
        if key not in self._number_casts:
            self._number_casts[key] = self._decide_number_cast(*key)
        if (cast := self._number_casts[key]) is None:  # the target has no complex numbers, say
            return KEEP
        try:
            array = np.array(scalar, key[1])
        except OverflowError:  # of the integers that int64 lacks, other dtypes hold some
            array, cast = self._huge(scalar, cast), Cast(cast.dtype, same=True, check=False)
        return self._deliver(array, owned=True, cast=cast)

    def _decide_number_cast(
        self, default: str, wide: np.dtype[Any], available: frozenset[str]
    ) -> Cast | None:
        cast = cast_for(wide, available, self.wanted.get(default, default))
        if cast is None:
            return None
        on_purpose = cast.dtype.name in (self.wanted.get(default), self.wanted.get(wide.name))
        return Cast(cast.dtype, cast.same, check=not (cast.same or on_purpose))

    def _huge(self, number: int, cast: Cast) -> Array:
        """Return an integer that int64 does not hold as an array of the dtype that it gets."""
        dtype = cast.dtype
        with suppress(OverflowError), np.errstate(all="ignore"):
            array = np.array(number, dtype)
            if not cast.check or int(np.real(array)) == number:
                return array
        what = f"int -> {dtype.name} {self.target.name}: {number} does not fit"
        hint = (
            'below 2**64, pass dtypes={"int64": "uint64"}'
            if 0 < number < 2**64
            else "no integer dtype holds it"
        )
        raise NarrowingError(what, f"{hint}; or make it a float or a string")

    def array_of(self, source: Framework, cls: type) -> Callable[[Any, bool], Any]:
        """Return the handler for a framework's arrays of this type."""
        way = self._way(source)
        to_private = source._fast.to_private(cls) if source is not self.target and not self.shares else None

        def finish(array: Any, private: Any) -> Any:
            try:
                if to_private is None or private is None:
                    return way(source, array)
                is_plain = private.dtype.num in self._taken_as_is
                return self._hand_over(private, source) if is_plain else self._deliver(private, True, source)
            except _REFUSALS as error:
                raise self.refusal(array, error, source) from error

        # Without a fast reader, `finish` is the handler itself, and ignores its second argument, `owned`.
        return finish if to_private is None else speedups.CopyFirst(to_private, finish)

    def _way(self, source: Framework) -> Callable[[Framework, Any], Any]:
        if source is self.target:
            return self._within
        by_dlpack = self.target.from_dlpack is not None and self.target.copy_within is not None
        return self._from_device if by_dlpack else self._through_numpy

    def _within(self, source: Framework, array: Any) -> Any:
        name = dtype_name(_dtype_of(array))
        used, is_checked = self._used(name)
        if source.copy_within is not None:
            if is_checked and not self.shares:
                self._refuse_if_lost(source, array, used)
            copy = source.copy_within(array, self.device, used, self.shares)
            return KEEP if copy is None else copy
        here = source.devices.of(array)
        there = here if self.device is None else self.device
        if not self.shares:
            return self._through_numpy(source, array, there)
        if there != here or used not in (None, name):
            what = f"{name} on {here} is not {used or name} on {there}"
            raise SharingError(what, "pass copy=None, which converts it")
        return array

    def _used(self, name: str) -> tuple[str | None, bool]:
        """Return the dtype that an array gets instead of its own or None, and whether it may lose values."""
        asked, dtypes, device = self.wanted.get(name), self.target.dtypes, self.device
        # An array keeps its dtype, unless this device lacks what others have: MPS has no float64.
        if asked is None and (device is None or name in dtypes(device) or name not in dtypes(None)):
            return None, False
        used = next_available(asked or name, dtypes(device))
        return used, used != asked and not can_hold(used, name)

    def _refuse_if_lost(self, source: Framework, array: Any, name: Any) -> None:
        """Raise if an array has values that a dtype does not hold."""
        values = source.to_numpy(array, False)
        if values is not None and (lost := cast_exactly(values, np.dtype(name))[1]):
            raise self._narrowing(array, source, dtype_name(_dtype_of(array)), name, lost)

    def _from_device(self, source: Framework, array: Any) -> Any:
        if not self._meets_by_dlpack(source, array):
            return self._through_numpy(source, array)
        target = self.target
        if self.shares and source.immutable and not target.immutable:
            what = f"arrays of {source.name} never change, and those of {target.name} are writable"
            raise SharingError(what, "pass copy=None")
        assert target.from_dlpack is not None
        assert target.copy_within is not None
        with source.devices.current(array):
            there = target.from_dlpack(array)
        used, _ = self._used(dtype_name(_dtype_of(array)))
        return target.copy_within(there, self.device, used, self.shares)

    def _meets_by_dlpack(self, source: Framework, array: Any) -> bool:
        """Return whether the target can read an array where it is, with a dtype that need not be checked.

        Decided before anything is tried: what fails then is an error, and does not go another way.
        """
        if source.devices.on_host(array):
            return False
        name = dtype_name(_dtype_of(array))
        used, is_checked = self._used(name)
        has_dtype = (used or name) in self.target.dtypes(self.device) and not is_checked
        return has_dtype and self.target.devices.reads(_dlpack_device_type(array))

    def _through_numpy(self, source: Framework, array: Any, device: Any = None) -> Any:
        box: list[Any] = [source.to_numpy(array, self.shares)]
        if box[0] is None:
            return KEEP
        is_fresh = not self.shares and ownership.is_fresh(box)  # before anything else holds it
        return self._deliver(box[0], is_fresh, source, device)

    def _deliver(
        self,
        array: Array,
        owned: bool,
        source: Framework | None = None,
        device: Any = None,
        cast: Cast | None = None,
    ) -> Any:
        """Hand a NumPy array to the target; make it private first, unless sharing was asked for."""
        dtype = array.dtype
        if cast is None and device is None and dtype.num in self._taken_as_is and dtype.isnative:
            if not owned:
                array = ownership.private_copy(array, dtype, self._alignment)
            return self._hand_over(array, source)
        if cast is None:
            available = self.target.dtypes(self.device if device is None else device)
            cast = self._casts[dtype, dtype.num, available]
            if cast is None:
                # NumPy holds its own structured dtypes, wherever an array came from.
                is_record = type(array) is np.ndarray and dtype.names and not dtype.hasobject
                is_kept = source is not None and not (self._is_numpy and is_record)
                return KEEP if is_kept else self.array_without_counterpart(array, owned)
        if self.shares and not owned:
            return self._share(array, cast, source)
        if cast.halves and array.nbytes < ownership.LARGE and (half := halved(array)) is not None:
            return self._hand_over(half, source, device)
        if not (owned and cast.same):
            array = self._private(array, cast, source)
        if cast.dtype.kind == "b":
            canonical_bools(array)
        return self._hand_over(array, source, device)

    def _hand_over(self, array: Array, source: Framework | None = None, device: Any = None) -> Any:
        try:
            if device is None and array.dtype.num in self._fast_numbers:
                made = self.from_private(array)  # type: ignore[misc]  # without one, no number is fast
                if self.makes is None or type(made) is self.makes:
                    return made  # otherwise `from_numpy` says what is wrong
            return self.target.from_numpy(array, self.device if device is None else device, False)
        except _REFUSALS as error:
            raise self.refusal(array, error, source) from error

    def _share(self, array: Array, cast: Cast, source: Framework | None) -> Any:
        given, target = describe(array, source), self.target.name
        if not array.dtype.isnative:
            raise SharingError(f"{given} -> {target}: not in native byte order", "pass copy=None")
        if array.dtype != cast.dtype:
            old, new = array.dtype.name, cast.dtype.name
            what = f"{given} -> {new} {target}: another dtype cannot share memory"
            if old not in self.target.dtypes(self.device):
                what = f"{given} -> {target}: {target} has no {old}, so memory cannot be shared"
            raise SharingError(what, f"pass copy=None, which converts it to {new}")
        try:
            return self.target.from_numpy(array if cast.same else array.view(cast.dtype), self.device, True)
        except _REFUSALS as error:
            raise self.refusal(array, error, source) from error

    def _private(self, array: Array, cast: Cast, source: Framework | None) -> Array:
        alignment = self._alignment
        if cast.same or (array.dtype.kind in "iu" and cast.dtype.kind in "iu"):  # casts that never warn
            copy = ownership.private_copy(array, cast.dtype, alignment)
        else:
            with np.errstate(all="ignore"):  # a cast is either checked below or deliberate
                copy = ownership.private_copy(castable(array, cast.dtype), cast.dtype, alignment)
        if cast.check and (lost := first_lost(array, copy)):
            raise self._narrowing(array, source, array.dtype.name, cast.dtype.name, lost)
        return copy

    def _narrowing(self, array: Any, source: Framework | None, old: str, new: str, lost: str) -> Exception:
        hint = f'cast on purpose with dtypes={{"{old}": "{new}"}}, or to a dtype that holds it'
        what = f"{describe(array, source)} -> {new} {self.target.name}: {lost} does not fit"
        return NarrowingError(what, f"{self.target.wider}; or {hint}" if self.target.wider else hint)

    def refusal(self, array: Any, error: Exception, source: Framework | None = None) -> Exception:
        """Return the error to raise when a framework's own call has failed."""
        if isinstance(error, FerryError) or not isinstance(error, _REFUSALS) or is_interruption(error):
            return error
        what = f"{describe(array, source)} -> {self.target.name}: {type(error).__name__}: {error}"
        return TransferError(what, "the framework itself refused; see its message")

    def route(self, value: Any, source: Framework | None) -> tuple[str, ...]:
        """Return the frameworks that a leaf goes through."""
        if source is None:
            return "numpy" if isinstance(value, np.generic) else "python", self.target.name
        way = self._way(source)
        if way == self._within or "numpy" in (source.name, self.target.name):
            return source.name, self.target.name
        by_dlpack = way == self._from_device and self._meets_by_dlpack(source, value)
        return source.name, "dlpack" if by_dlpack else "numpy", self.target.name


def _dtype_of(array: Any) -> Any:
    """Return an array's dtype; for a framework's own scalar, its type, which serves as one."""
    return getattr(array, "dtype", type(array))


def _dlpack_device_type(array: Any) -> int:
    """Return DLPack's number for the kind of device that an array is on: 2 is CUDA, 0 stands for unknown."""
    if not hasattr(array, "__dlpack_device__"):
        return 2 if hasattr(array, "__cuda_array_interface__") else 0
    try:
        return int(array.__dlpack_device__()[0])
    except (BufferError, ValueError):  # DLPack has no number for it: a TPU, or several devices
        return 0
