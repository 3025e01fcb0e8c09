"""The second half of a route: from a NumPy array to the target's, cast, made private or shared."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from arrayferry._core import dtypes, messages, ownership, registry
from arrayferry._core.dtypes import Cast
from arrayferry._core.framework import Array, Framework, Placement
from arrayferry._core.interruptions import REFUSALS, is_interruption
from arrayferry.errors import FerryError, NarrowingError, SharingError, TransferError, UnsupportedError


class Delivery:
    """Hands NumPy arrays to one target.

    Args:
        framework: the target's framework.
        device: the device, as the framework's own object.
        copy: as for `Converter`.
        wanted: the dtypes that the user asked for, by the name of what they replace.

    Attributes:
        target: how the framework makes arrays on the device.
        as_is: the dtypes that the target takes without a cast or a check.
        shares: whether memory is shared: `copy=False`.
    """

    def __init__(self, framework: Framework, device: Any, copy: bool | None, wanted: dict[str, str]) -> None:
        self.framework, self.device, self.copy, self.wanted = framework, device, copy, wanted
        self.shares = copy is False
        self.target = device.target() if isinstance(device, Placement) else framework.target(device)
        self.as_is = {np.dtype(name) for name in self.target.as_is - wanted.keys()}
        # By number, which may differ between equal dtypes: int64 and longlong.
        self._as_is = frozenset() if self.shares else frozenset(dtype.num for dtype in self.as_is)
        self._casts = cache(self._decide_cast)

    def cast_of(self, dtype: np.dtype[Any]) -> Cast | None:
        """Return how arrays of a dtype are cast; None if the target has nothing like it."""
        return self._casts(dtype, dtype.num, self.target.dtypes())

    def _decide_cast(self, dtype: np.dtype[Any], number: int, available: frozenset[str]) -> Cast | None:
        return dtypes.cast_for(dtype, available, self.wanted.get(dtype.name))

    def deliver(
        self, array: Array, owned: bool, source: Framework | None = None, cast: Cast | None = None
    ) -> Any:
        """Hand an array to the target; make it private first, unless sharing was asked for.

        Args:
            array: the array.
            owned: whether its memory may be taken over.
            source: the framework that it came from; None for NumPy.
            cast: how to cast it, if not by its dtype.

        Returns:
            The target's array; None if its dtype has no counterpart there.
        """
        dtype = array.dtype
        if cast is None and dtype.num in self._as_is and dtype.isnative:
            if not owned or array.nbytes < self.target.small:
                array = ownership.private_copy(array, dtype, self.target.alignment)
            return self.take(array, source)
        if (cast := cast or self.cast_of(dtype)) is None:
            return None
        if self.shares and not owned:
            return self._share(array, cast, source)
        if cast.halves and array.nbytes < ownership.LARGE and (half := dtypes.halved(array)) is not None:
            return self.take(half, source)
        is_copied = self.target.copies and cast.dtype.kind != "b"  # by `take`
        if not (cast.same and (owned or is_copied)):
            array = self._private(array, cast, source)
        if cast.dtype.kind == "b":
            dtypes.canonical_bools(array)
        return self.take(array, source)

    def take(
        self, array: Array, source: Framework | None = None, make: Callable[[Array], Any] | None = None
    ) -> Any:
        """Hand over private memory of a dtype that the target has; `make` replaces the target's `take`."""
        target, make = self.target, make or self.target.take
        try:
            if target.from_bits is None or array.dtype.num < dtypes.USER_DEFINED:  # to ask for a name is slow
                result = make(array)
            else:
                bits = make(array.view(np.int16 if array.dtype.itemsize == 2 else np.uint8))
                result = target.from_bits(bits, array.dtype.name)
        except REFUSALS as error:
            raise self.refusal(array, error, source) from error
        if target.result_type is not None and type(result) is not target.result_type:
            self.refuse(result)
        return result

    def refuse(self, result: Any) -> None:
        """Raise because the target has made something without values."""
        kind = messages.with_article(type(result).__name__)
        what = f"{self.framework.name} makes {kind} here, which has no values"
        raise UnsupportedError(what, "convert outside of FakeTensorMode and other modes that replace results")

    def _share(self, array: Array, cast: Cast, source: Framework | None) -> Any:
        given, name = registry.describe(array, source), self.framework.name
        if array.dtype.newbyteorder("=") != cast.dtype:
            what = f"{given} -> {cast.dtype.name} {name}: another dtype cannot share memory"
            raise SharingError(what, f"pass copy=None, which converts it to {cast.dtype.name}")
        if self.target.share is None:
            where = "kept in memory of its own" if self.device is None else f"not on {self.device}"
            reason = f"it is {where}"
        elif code := ownership.obstacle(array, ("byte-order", *self.target.needs)):
            reason = ownership.OBSTACLES[code][0]
        else:
            same = array if cast.same else array.view(cast.dtype)
            return self.take(same, source, self.target.share)
        raise SharingError(f"{name} cannot share this memory: {reason}", "pass copy=None")

    def _private(self, array: Array, cast: Cast, source: Framework | None) -> Array:
        alignment = self.target.alignment
        if cast.same or (array.dtype.kind in "iu" and cast.dtype.kind in "iu"):  # casts that never warn
            copy = ownership.private_copy(array, cast.dtype, alignment)
        else:
            with np.errstate(all="ignore"):  # a cast is either checked below or deliberate
                copy = ownership.private_copy(dtypes.castable(array, cast.dtype), cast.dtype, alignment)
        if cast.check and (lost := dtypes.first_lost(array, copy)):
            raise self.narrowing(array, source, array.dtype.name, cast.dtype.name, lost)
        return copy

    def narrowing(self, array: Any, source: Framework | None, old: str, new: str, lost: str) -> Exception:
        """Return the error for a value that a dtype does not hold."""
        hint = f'cast on purpose with dtypes={{"{old}": "{new}"}}, or to a dtype that holds it'
        what = f"{registry.describe(array, source)} -> {new} {self.framework.name}: {lost} does not fit"
        wider = self.framework.widening_hint
        return NarrowingError(what, f"{wider}; or {hint}" if wider else hint)

    def refusal(self, array: Any, error: Exception, source: Framework | None = None) -> Exception:
        """Return the error to raise when a framework's own call has failed."""
        if isinstance(error, FerryError) or not isinstance(error, REFUSALS) or is_interruption(error):
            return error
        what = f"{registry.describe(array, source)} -> {self.framework.name}: {type(error).__name__}: {error}"
        return TransferError(what, "the framework itself refused; see its message")
