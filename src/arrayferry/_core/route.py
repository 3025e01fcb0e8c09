"""Routes: how leaves of one type get to one target. Decided once, followed by both walks, printed by explain.

Within a framework, its own copy is used; between frameworks on the same accelerator, DLPack; everything
else goes through NumPy, where memory can be seen, owned and checked. A route decides what a type can decide;
the device, the dtype and the owner of a single array are asked about when it is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from arrayferry._core import containers, dtypes, holds, interruptions, ownership, registry
from arrayferry._core.delivery import Delivery
from arrayferry._core.dtypes import Cast
from arrayferry._core.framework import Array, Deferred, Framework, Source
from arrayferry._core.generic import dlpack_device_type
from arrayferry._core.messages import number_text
from arrayferry._core.walk import KEEP
from arrayferry.errors import NarrowingError, SharingError


class Route(NamedTuple):
    """How leaves of one type get to one target. To call it is to call `follow`.

    Attributes:
        steps: the frameworks that a leaf goes through.
        follow: `(leaf, owned)` to the target's array, to `KEEP`, or to a `Container`.
        resolve: `(leaf)` to the route that this very leaf takes; None if that is always this one.

    The rest is for the walk in C, which reads the fields by number, and takes the most common leaves without
    calling `follow`:

    Attributes:
        copy_of: `(leaf)` to a private NumPy array, or to None where in doubt; None if leaves are NumPy's.
        finish: `(leaf, private array)` to what `follow` returns, for an array that `take` does not accept.
        take: as in `Target`, or its `share` if memory is shared; None if `follow` is always called.
        result_type: as in `Target`.
        refuse: raises for a result of any other type.
        refusal: `(array, error)` to the error to raise when `take` raised.
        as_is: by the number of a dtype: 1 if `take` accepts it as it is, 2 if only bytes of 0 and 1.
        copy: as for `Converter`.
        small: as in `Target`.
        large: from this many bytes on, copies are aligned, by `follow`; None if they never are.
    """

    steps: tuple[str, ...]
    follow: Callable[[Any, bool], Any]
    resolve: Callable[[Any], Any] | None = None
    copy_of: Callable[[Any], Array | None] | None = None
    finish: Callable[[Any, Any], Any] | None = None
    take: Callable[[Array], Any] | None = None
    result_type: type | None = None
    refuse: Callable[[Any], Any] | None = None
    refusal: Callable[[Any, Exception], Exception] | None = None
    as_is: bytes = b""
    copy: bool | None = None
    small: int = 0
    large: int | None = None

    def __call__(self, leaf: Any, owned: bool) -> Any:
        return self.follow(leaf, owned)


class Routes(Delivery):
    """The routes to one target; all that go through NumPy end with a delivery.

    Attributes:
        number: the route of Python's numbers.
        from_numpy: the routes of NumPy's types; the first one that is a base of a type counts.
    """

    def __init__(self, framework: Framework, device: Any, copy: bool | None, wanted: dict[str, str]) -> None:
        super().__init__(framework, device, copy, wanted)
        target, self._is_numpy = self.target, framework.name == "numpy"
        # The default dtypes of Python's numbers that need no cast, and up to which number each holds all.
        names = dtypes.LARGEST.keys() & target.as_is if not wanted else ()
        self._largest = {name: (np.dtype(name), dtypes.LARGEST[name]) for name in names}
        self._number_cast = cache(self._decide_number_cast)
        self._own_copy = cache(lambda framework: framework.target(None).within)
        checks_bools = not (self.shares or target.copies or "bool" in wanted) and "bool" in target.dtypes()
        numbers: dict[int, int] = {np.dtype(bool).num: 2} if checks_bools else {}
        numbers |= {dtype.num: 1 for dtype in self.as_is}
        self._for_c: dict[str, Any] = {
            "take": target.share if self.shares else target.take,
            "result_type": target.result_type,
            "refuse": self.refuse,
            "refusal": self.refusal,
            "as_is": bytes(numbers.get(number, 0) for number in range(64)),
            "copy": copy,
            "small": 0 if self.shares else target.small,
            "large": ownership.LARGE if target.alignment else None,
        }
        steps = "numpy", framework.name
        self.number = Route(steps=("python", framework.name), follow=self._follow_number)
        self.from_numpy = {
            np.generic: Route(steps=steps, follow=self._follow_scalar),
            np.ma.MaskedArray: Route(steps=steps, follow=self._follow_only_numpy),
            np.ndarray: Route(steps=steps, follow=self._follow_numpy_array, **self._for_c),
        }

    def array_of(self, framework: Framework, cls: type) -> Route:
        """Return the route of a framework's arrays of this type."""
        name, source = self.framework.name, framework.source(cls)
        is_within = framework is self.framework
        fast: dict[str, Any] = {}
        # Within a framework, arrays that do not change may be on several devices, and stay where they are.
        only_within = is_within and (self.wanted or framework.immutable or not self.target.as_is)
        if source.fast_copy is not None and not (self.shares or only_within):
            finish = self._blaming(framework, partial(self._finish, framework))
            fast = {**self._for_c, "copy_of": source.fast_copy, "finish": finish}
        if is_within:
            within = self._blaming(framework, partial(self._within, source))
            return Route(steps=(name, name), follow=within, **fast)
        steps = (framework.name, name) if self._is_numpy else (framework.name, "numpy", name)
        read = self._blaming(framework, partial(self._read, framework, source))
        by_host = Route(steps=steps, follow=read, **fast)
        if self.target.alias is None or self.target.within is None:
            return by_host
        alias = self._blaming(framework, partial(self._alias, framework, source))
        by_device = Route(steps=(framework.name, "dlpack", name), follow=alias)

        def resolve(array: Any) -> Route:
            return by_device if self._meets(source, array) else by_host

        return Route(steps=steps, follow=lambda *leaf: resolve(leaf[0])(*leaf), resolve=resolve, **fast)

    def _blaming(self, framework: Framework, follow: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return a function whose errors say which framework's array was refused."""

        def blaming(array: Any, owned: Any) -> Any:
            try:
                return follow(array, owned)
            except interruptions.REFUSALS as error:
                raise self.refusal(array, error, framework) from error

        return blaming

    # ---- numbers ------------------------------------------------------------------------------------------

    def _follow_number(self, number: Any, owned: bool) -> Any:
        """Convert an int, float or complex to a 0-d array of the target's default dtype."""
        default = self.target.defaults()[type(number)]
        if default in self._largest:
            dtype, largest = self._largest[default]
            if -largest <= number <= largest:  # False for a NaN
                return self.take(np.array(number, dtype))
        wide = dtypes.WIDEST[type(number)]
        if (cast := self._number_cast(default, wide, self.target.dtypes())) is None:
            return KEEP  # the target has no complex numbers, say
        try:
            array = np.array(number, wide)
        except OverflowError:  # of the integers that int64 lacks, other dtypes hold some
            return self.take(self._huge(number, cast))
        return self.deliver(array, owned=True, cast=cast)

    def _decide_number_cast(self, default: str, wide: np.dtype[Any], held: frozenset[str]) -> Cast | None:
        cast = dtypes.cast_for(wide, held, self.wanted.get(default, default))
        if cast is None:
            return None
        on_purpose = cast.dtype.name in (self.wanted.get(default), self.wanted.get(wide.name))
        return Cast(cast.dtype, cast.same, check=not (cast.same or on_purpose))

    def _huge(self, number: int, cast: Cast) -> Array:
        """Return an integer that int64 does not hold as an array of the dtype that it gets."""
        with suppress(OverflowError), np.errstate(all="ignore"):
            array = np.array(number, cast.dtype)
            if not cast.check or int(np.real(array)) == number:
                return array
        what = f"int -> {cast.dtype.name} {self.framework.name}: {number_text(number)} does not fit"
        hint = 'below 2**64, pass dtypes={"int64": "uint64"}; or make it a float or a string'
        raise NarrowingError(what, hint)

    # ---- NumPy --------------------------------------------------------------------------------------------

    def _follow_scalar(self, scalar: Any, owned: bool) -> Any:
        """Convert an `np.generic` to a 0-d array of the same dtype."""
        array = np.asarray(scalar)
        if not array.dtype.hasobject and self.cast_of(array.dtype) is not None:
            return self.deliver(array, owned=True)
        # NumPy holds all of its own dtypes; of its scalars, only records are mutable.
        if not self._is_numpy:
            return KEEP
        if self.shares or not isinstance(scalar, np.void):
            return scalar
        return containers.NUMPY_ARRAY if array.dtype.hasobject else scalar.copy()

    def _follow_numpy_array(self, array: Array, owned: bool) -> Any:
        """Convert an `np.ndarray` or an instance of a subclass."""
        if array.dtype.kind == "O":
            return containers.OBJECT_ARRAY
        is_takeable = owned and self.copy is None and ownership.can_be_taken(array)
        result = self.deliver(array, is_takeable)
        return self._follow_only_numpy(array, owned) if result is None else result

    def _follow_only_numpy(self, array: Array, owned: bool) -> Any:
        """Keep an array whose dtype or mask only NumPy has; as a target, NumPy takes it like any other."""
        if not self._is_numpy:
            return KEEP
        is_takeable = owned and self.copy is None and ownership.can_be_taken(array)
        if array is np.ma.masked or is_takeable or self.shares:  # the first is a singleton
            return array
        if array.dtype.hasobject or getattr(array, "__dict__", None):
            return containers.NUMPY_ARRAY
        return np.array(array, copy=True, subok=True)

    # ---- other frameworks ---------------------------------------------------------------------------------

    def _read(self, framework: Framework, source: Source, array: Any, owned: bool, device: Any = None) -> Any:
        """Convert an array through NumPy. Only of what is read there, the owner can be known."""
        if source.fetch is not None and (result := self._fetch(source, source.fetch, array)) is not None:
            return result
        box: list[Any] = [source.view(array) if self.shares else source.read(array)]
        if box[0] is None:
            return KEEP
        is_fresh = not self.shares and ownership.is_fresh(box)  # before anything else holds it
        delivery = self if device is None else Delivery(self.framework, device, self.copy, self.wanted)
        result = delivery.deliver(box[0], is_fresh, framework)
        if result is not None:
            return result
        # NumPy holds its own structured dtypes, wherever an array came from.
        is_record = type(box[0]) is np.ndarray and box[0].dtype.names and not box[0].dtype.hasobject
        return self._follow_only_numpy(box[0], is_fresh) if is_record else KEEP

    def _fetch(self, source: Source, fetch: Callable[[Any, Array], Any], array: Any) -> Any:
        """Make an array on memory of the host, and copy the values there later.

        Returns None if the array is there already, or if the target does not use that memory as it is.
        """
        if self.shares or self.target.share is None or source.on_host(array):
            return None
        name = _dtype_of(array)
        if name in self.wanted or name not in dtypes.STANDARD & self.target.dtypes():
            return None
        memory = ownership.empty(array.shape, np.dtype(name), self.target.alignment)
        with suppress(SharingError):
            result, fetched = self.target.share(memory), fetch(array, memory)
            return fetched._replace(array=result) if type(fetched) is Deferred else result
        return None

    def _finish(self, framework: Framework, array: Any, private: Array) -> Any:
        """Go on with a private copy that the walk in C has made."""
        result = self.deliver(private, True, framework)
        return KEEP if result is None else result

    def _within(self, source: Source, array: Any, owned: bool) -> Any:
        """Convert one of the target framework's own arrays."""
        name, (used, is_checked) = _dtype_of(array), self._dtype_within(_dtype_of(array))
        if self.shares:
            return self._share_within(array, name, used)
        if self.target.within is None:
            device = source.device_of(array) if self.device is None else None  # where it stays
            return self._read(self.framework, source, array, owned, device)
        if is_checked:
            values = source.read(array)
            if values is not None and (lost := dtypes.cast_exactly(values, np.dtype(used))[1]):
                raise self.narrowing(array, self.framework, name, str(used), lost)
        copy = self.target.within(array, used)
        return KEEP if copy is None else copy

    def _share_within(self, array: Any, name: str, used: str | None) -> Any:
        is_there = self.target.holds(array)  # first, because it refuses what has no values
        if is_there and used in (None, name):
            return array
        place = f"is on {getattr(array, 'device', 'another device')}, not on {self.device}"
        what = f"{registry.describe(array, self.framework)} {f'is not {used}' if is_there else place}"
        raise SharingError(what, "pass copy=None, which converts it")

    def _dtype_within(self, name: str) -> tuple[str | None, bool]:
        """Return the dtype that an array gets instead of its own or None, and whether it may lose values."""
        asked, available = self.wanted.get(name), self.target.dtypes()
        # An array keeps its dtype, unless this device lacks what others have: MPS has no float64.
        if asked is None and (name in available or name not in self.framework.target(None).dtypes()):
            return None, False
        used = dtypes.next_available(asked or name, available)
        return used, used != asked and not dtypes.can_hold(used, name)

    def _meets(self, source: Source, array: Any) -> bool:
        """Return whether the target can read an array where it is, with a dtype that need not be checked.

        Decided before anything is tried: what fails then is an error, and does not go another way.
        """
        if source.on_host(array):
            return False
        name, (used, is_checked) = _dtype_of(array), self._dtype_within(_dtype_of(array))
        has_dtype = (used or name) in self.target.dtypes() and not is_checked
        return has_dtype and self.target.can_alias(dlpack_device_type(array))

    def _alias(self, framework: Framework, source: Source, array: Any, owned: bool) -> Any:
        """Convert an array on an accelerator there; first, its framework copies what may change."""
        if self.shares and framework.immutable and not self.framework.immutable:
            what = f"arrays of {framework.name} never change; those of {self.framework.name} are writable"
            raise SharingError(what, "pass copy=None")
        assert self.target.alias is not None
        is_fixed = self.shares or framework.immutable
        copy = None if is_fixed else self._own_copy(framework)
        with source.guard(array):
            export = source.export(array) if copy is None else copy(array, None)
            alias = self.target.alias(export.array if type(export) is Deferred else export)
        result = self._within(registry.source_of(alias), alias, owned)
        if not is_fixed and copy is None and type(result) is Deferred:
            result.finish([result.task])
            holds.release()  # waits for the copy: its owner may change what it reads at any time
            return result.array
        if type(export) is Deferred and result is not KEEP:
            return export._replace(array=result)  # both copies read something that has to be held
        return result


def _dtype_of(array: Any) -> str:
    """Return the name of an array's dtype; of a framework's own scalar, that of its type."""
    return dtypes.dtype_name(getattr(array, "dtype", type(array)))
