"""What a framework is to us: how its arrays are read, and how they are made on one of its devices."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from arrayferry.errors import DeviceError, NotInstalledError, SharingError

Array = NDArray[Any]

# The dtypes that NumPy gives to Python's numbers, and those that frameworks for accelerators do.
WIDE = {int: "int64", float: "float64", complex: "complex128"}
NARROW = {int: "int32", float: "float32", complex: "complex64"}


def no_view(array: Any) -> Array:
    """Refuse to share an array's memory: the `view` of arrays whose memory NumPy cannot see."""
    what = f"NumPy cannot see the memory of this {type(array).__name__}"
    raise SharingError(what, "pass copy=None, which copies it")


class Deferred(NamedTuple):
    """An array whose values are under way: what `fetch`, `take` and `within` may return for a device.

    The walk goes on with the array. At its end, and before anybody else's code sees the array, it calls
    `finish` once for all that have the same one, which needs one event, transfer or wait for all of them.

    Attributes:
        array: the array, which has its values when `finish` returns; it may be deferred for more reasons.
        finish: `(list of tasks)`; one function for all arrays, so that it is called once.
        task: what `finish` has to know of this array.
    """

    array: Any
    finish: Callable[[list[Any]], None]
    task: Any


class Source(NamedTuple):
    """How arrays of one type are read. Its functions refuse what has no dense values.

    Attributes:
        read: `(array)` to the cheapest NumPy array: a view, or fresh memory; None if it has no counterpart.
        view: the same for a view of its memory, or a `SharingError`.
        device_of: `(array)` to the device that it is on, where an action for it should go too; None for the
            default one.
        on_host: `(array)` to False if NumPy cannot see its memory.
        guard: `(array)` to a context in which the array's device is the current one, to export it from.
        export: `(array)` to an array on the same memory that others may be given, or a `SharingError`.
        fetch: `(array, NumPy array)` copies an array on a device to one of the same shape and dtype;
            returns a `Deferred` if its values are there later.
        item: turns a 0-d array into a Python number, and any other array into something else.
        fast_copy: makes a private NumPy array, or returns None if in doubt; it is tried before `read`.
        fast_view: the same for a view, for callers that finish reading before anybody can write.
    """

    read: Callable[[Any], Array | None]
    view: Callable[[Any], Array | None] = no_view
    device_of: Callable[[Any], Any] = lambda array: None
    on_host: Callable[[Any], bool] = lambda array: True
    guard: Callable[[Any], AbstractContextManager[Any]] = lambda array: nullcontext()
    export: Callable[[Any], Any] = lambda array: array
    fetch: Callable[[Any, Array], Any] | None = None
    item: Callable[[Any], Any] | None = None
    fast_copy: Callable[[Any], Array | None] | None = None
    fast_view: Callable[[Any], Array | None] | None = None


class Target(NamedTuple):
    """How arrays are made on one device.

    Attributes:
        take: `(ndarray)` to an array; the memory is private, C-ordered and native, and may be taken over.
        copies: whether `take` copies the memory, at the latest when the walk is over, so that any will do.
        dtypes: `()` to the names of the dtypes that it can hold at the moment.
        defaults: `()` to the dtype names of Python's int, float and complex.
        as_is: the names of the dtypes that `take` accepts without a cast or a check, at all times; what it
            returns for them is never `Deferred`.
        result_type: the type of what `take` returns; anything else has no values, and is refused. None if
            the type does not tell.
        from_bits: `(array of integers, dtype name)` to an array of the same bits, for the dtypes that NumPy
            lacks; None if `take` accepts those of ml_dtypes.
        share: `(ndarray)` to an array on the same memory; None if there is no such thing.
        needs: what memory must not be to be shared, besides byte-swapped: `"read-only"`, `"not-contiguous"`
            and other codes of `ownership.OBSTACLES`.
        small: the bytes up to which private memory is copied once more instead of taken over, because that is
            faster.
        alignment: the bytes to which large private copies are aligned, if it takes over only aligned memory.
        within: `(array, dtype name or None)` to a private copy of one of the framework's own arrays, on this
            device, made in the order in which the framework works on it; None if it has no counterpart.
            Without it, such arrays go through NumPy.
        holds: `(array)` to whether one of the framework's own arrays is on this device.
        alias: `(array)` to an array on the same device memory as another framework's; used with `within`.
        can_alias: `(device type)` to whether `alias` reads memory there; a type is a number of DLPack's
            `DLDeviceType` (1 for the CPU, 2 for CUDA), 0 if an array does not tell.
        guard: whether a mode is on in which no array should be made, and a context without it; asked once
            per walk.
    """

    take: Callable[[Array], Any]
    dtypes: Callable[[], frozenset[str]]
    copies: bool = False
    defaults: Callable[[], Mapping[type, str]] = lambda: WIDE
    as_is: frozenset[str] = frozenset()
    result_type: type | None = None
    from_bits: Callable[[Any, str], Any] | None = None
    share: Callable[[Array], Any] | None = None
    needs: tuple[str, ...] = ()
    small: int = 0
    alignment: int = 0
    within: Callable[[Any, str | None], Any] | None = None
    holds: Callable[[Any], bool] = lambda array: True
    alias: Callable[[Any], Any] | None = None
    can_alias: Callable[[int], bool] = lambda device_type: device_type != 0
    guard: tuple[Callable[[], bool], Callable[[], AbstractContextManager[Any]]] | None = None


class Placement(ABC):
    """A place that is more than one device. It says itself how arrays are made there, and can be pickled."""

    @abstractmethod
    def target(self) -> Target:
        """Return how arrays are made there."""

    @abstractmethod
    def read(self, array: Any) -> Any:
        """Return the part of an array that this process has; an array that is elsewhere as it is."""


class Framework(ABC):
    """One array framework. Its author writes a `source` and a `target`; NumPy connects any two frameworks.

    Attributes:
        name: what users write, such as `"numpy"`.
        modules: the namespaces that stand for this framework; the first is imported when it is used.
        arrays: its array types, as `"module:Class"`, looked up without importing anything.
        distributions: names that `pip` may know it by, if not by `name`, for its version and for the hint
            when it is missing.
        immutable: whether its arrays cannot be written to.
        widening_hint: how a user gets wider dtypes, for the message when a value does not fit.

    Example:
        >>> import numpy as np
        >>> from array import array
        >>> from arrayferry import Framework, Source, Target, convert
        >>> class Stdlib(Framework):
        ...     name, modules, arrays = "array", ("array",), ("array:array",)
        ...
        ...     def source(self, cls):
        ...         return Source(read=lambda values: np.frombuffer(values, values.typecode))
        ...
        ...     def target(self, device):
        ...         return Target(
        ...             take=lambda values: array(values.dtype.char, values.tolist()),
        ...             dtypes=lambda: frozenset({"int64", "float64"}),
        ...         )
        >>> convert(np.arange(3.0), Stdlib())  # `register_framework` makes it known by its name
        array('d', [0.0, 1.0, 2.0])
    """

    name: str
    modules: tuple[str, ...]
    arrays: tuple[str, ...]
    distributions: tuple[str, ...] = ()
    immutable: bool = False
    widening_hint: str = ""

    @abstractmethod
    def source(self, cls: type) -> Source:
        """Return how arrays of one of its types are read. Called once for each type."""

    @abstractmethod
    def target(self, device: Any) -> Target:
        """Return how arrays are made on a device that `find_device` returned; None is the default one."""

    def devices(self) -> Sequence[Any] | None:
        """Return the framework's own device objects on this machine; None if it knows only the CPU."""
        return None

    def find_device(self, spec: Any) -> Any:
        """Return the framework's own device object, or raise `no_device(spec)`; None stays None."""
        if spec is None:
            return None
        devices = self.devices()
        if devices is None and str(spec).lower() == "cpu":
            return None
        for device in devices or ():
            if spec == device or str(spec) == self.device_name(device):
                return device
        raise self.no_device(spec)

    def device_name(self, device: Any) -> Any:
        """Return a name that `find_device` understands, for pickling."""
        return str(device)

    def device_names(self) -> tuple[str, ...]:
        """Return the names of the devices on this machine."""
        devices = self.devices()
        return ("cpu",) if devices is None else tuple(map(self.device_name, devices))

    def no_device(self, spec: Any) -> DeviceError:
        """Return the error for a device that is unknown or not there."""
        names = ", ".join(self.device_names()) or "none"
        return DeviceError(f"{self.name} has no device {str(spec)!r} here", f"the devices here are: {names}")

    def load(self) -> ModuleType:
        """Import the framework, or raise an error that says which command installs it."""
        try:
            return importlib.import_module(self.modules[0])
        except ImportError as error:
            package = (*self.distributions, self.name)[0]
            package = f'"{package}"' if "[" in package else package  # some shells would expand the brackets
            what = f"{self.name} cannot be imported ({error})"
            raise NotInstalledError(what, f"pip install {package}") from error
