"""What a framework is to us: a record that its author fills in."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

from numpy.typing import NDArray

from arrayferry.errors import DeviceError, NotInstalledError

__all__ = ["WIDE", "Array", "Batches", "Devices", "FastPaths", "Framework", "Mode", "only_cpu"]

Array = NDArray[Any]

# A pair: tells whether a mode is on in which no array should be made; makes a context without that mode.
Mode: TypeAlias = "tuple[Callable[[], bool], Callable[[], AbstractContextManager[Any]]]"


def only_cpu(framework: str) -> Callable[[Any], Any]:
    """Return the `find` function of a framework that has only the CPU."""

    def find(spec: Any) -> Any:
        if spec is None or str(spec).lower() == "cpu":
            return None
        raise DeviceError(f"{framework} has no device {str(spec)!r} here", "the devices here are: cpu")

    return find


_FIND_CPU = only_cpu("this framework")


@dataclass(frozen=True, eq=False, kw_only=True)
class Devices:
    """The devices of a framework. By default, it has only the CPU.

    Attributes:
        find: `(spec)` to the framework's own device object; None stays None. An unknown device raises a
            `DeviceError` that lists the available ones.
        name: `(device)` to a name that `find` understands, for pickling.
        available: `()` to the names of the devices on this machine.
        of: `(array)` to the device that it is on, where an action for it should go too; None for the default.
        on_host: `(array)` to False if NumPy cannot see its memory, True otherwise.
        reads: `(device type)` to whether `from_dlpack` can read memory there; a type is a number of DLPack's
            `DLDeviceType` (1 for the CPU, 2 for CUDA), 0 if an array does not tell.
        current: `(array)` to a context in which the array's device is the current one, to export it from.

    Example:
        >>> from arrayferry import Devices
        >>> from arrayferry.errors import DeviceError
        >>> def find(spec):
        ...     if spec in (None, "left", "right"):
        ...         return spec
        ...     raise DeviceError(f"no device {spec!r}", "the devices here are: left, right")
        >>> hands = Devices(find=find, available=lambda: ("left", "right"), of=lambda array: array.hand)
        >>> hands.available(), Devices().available()
        (('left', 'right'), ('cpu',))
    """

    find: Callable[[Any], Any] = _FIND_CPU
    name: Callable[[Any], Any] = str
    available: Callable[[], tuple[str, ...]] = lambda: ("cpu",)
    of: Callable[[Any], Any] = lambda array: None
    on_host: Callable[[Any], bool] = lambda array: True
    reads: Callable[[int], bool] = lambda device_type: device_type != 0
    current: Callable[[Any], AbstractContextManager[Any]] = lambda array: nullcontext()


@dataclass(frozen=True, eq=False, kw_only=True)
class FastPaths:
    """Hooks for speed, private to arrayferry: a framework works without any of them.

    Attributes:
        from_private: `(device)` to the framework's fastest `from_numpy` for memory that nobody else sees,
            or None.
        plain_dtypes: `(device)` to the names of the dtypes whose arrays `from_private` takes as they are, at
            all times and whatever their bytes.
        makes: `()` to the type that `from_private` returns; a result of any other type has no values. None if
            the type does not tell.
        aliases: whether the result of `from_private` always uses the very memory that it was given.
        to_private: `(type)` to a function that makes a private NumPy array from an array of exactly that
            type, or returns None if in doubt; None if there is no such function.
        to_view: the same for a view of the memory, for callers that finish reading before anybody can write.
        item: `(type)` to a function that turns a 0-d array of exactly that type into a Python number, and any
            other array into something else; None if there is no such function.
        mode: `()` to the framework's `Mode`.
        alignment: the bytes to which large private copies are aligned, for a framework that takes over
            only aligned memory.
    """

    from_private: Callable[[Any], Callable[[Array], Any] | None] = lambda device: None
    plain_dtypes: Callable[[Any], frozenset[str]] = lambda device: frozenset()
    makes: Callable[[], type | None] = lambda: None
    aliases: bool = False
    to_private: Callable[[type], Callable[[Any], Array | None] | None] = lambda cls: None
    to_view: Callable[[type], Callable[[Any], Array | None] | None] = lambda cls: None
    item: Callable[[type], Callable[[Any], Any] | None] = lambda cls: None
    mode: Callable[[], Mode] = lambda: (bool, nullcontext)
    alignment: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Batches:
    """Batches of rows on many devices, private to arrayferry. By default, a framework has none.

    Attributes:
        split: `(spec, rows)` to the device for arrays with that many rows, and the device for everything
            else; raises a `DeviceError` if these rows cannot be split that way.
        rows_here: `(array, device)` to this process's rows of an array that has those of all processes,
            if `split` made the device; any other array as it is.
    """

    split: Callable[[Any, int], tuple[Any, Any]] = lambda spec, rows: (spec, spec)
    rows_here: Callable[[Any, Any], Any] = lambda array, device: array


# The dtypes that NumPy gives to Python's numbers.
WIDE = {int: "int64", float: "float64", complex: "complex128"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Framework:
    """How arrays of one framework are converted to and from NumPy, which connects any two frameworks.

    Only the first six are required.

    Attributes:
        name: what users write, such as `"numpy"`.
        modules: the namespaces that stand for this framework; the first is imported when it is used.
        arrays: its array types, as `"module:Class"`, looked up without importing anything.
        to_numpy: `(array, share)` to a NumPy view, or to a fresh array where there is no view. With
            `share`, a view or a `SharingError`. None means that this array has no counterpart.
        from_numpy: `(ndarray, device, share)` to an array. Without `share` the memory is private and
            may be taken over; with it, the array shares the memory, or a `SharingError` is raised.
        dtypes: `(device)` to the names of the dtypes that it can hold there at the moment.
        default_dtypes: `(device)` to the dtype names of Python's int, float and complex there.
        devices: its devices.
        copy_within: `(array, device, dtype, share)` to another array of this framework; None to go
            through NumPy.
        from_dlpack: `(array)` to an array on the same memory and device, for devices beyond the host; used
            together with `copy_within`.
        immutable: whether its arrays cannot be written to.
        distributions: names that `pip` may know it by, for its version and for the hint when it is missing.
        wider: how a user gets wider dtypes, for the message when a value does not fit.
        before_import: `()`, called before the framework is imported; raises if that would do harm.

    Example:
        >>> import numpy as np
        >>> from array import array
        >>> from arrayferry import Framework, convert
        >>> stdlib = Framework(
        ...     name="array",
        ...     modules=("array",),
        ...     arrays=("array:array",),
        ...     to_numpy=lambda values, share: np.frombuffer(values, values.typecode),
        ...     from_numpy=lambda values, device, share: array(values.dtype.char, values.tolist()),
        ...     dtypes=lambda device: frozenset({"int64", "float64"}),
        ... )
        >>> convert(np.arange(3.0), stdlib)  # `register_framework` makes it known by its name
        array('d', [0.0, 1.0, 2.0])
    """

    name: str
    modules: tuple[str, ...]
    arrays: tuple[str, ...]
    to_numpy: Callable[[Any, bool], Array | None]
    from_numpy: Callable[[Array, Any, bool], Any]
    dtypes: Callable[[Any], frozenset[str]]
    default_dtypes: Callable[[Any], Mapping[type, str]] = lambda device: WIDE
    devices: Devices = Devices()
    copy_within: Callable[[Any, Any, str | None, bool], Any] | None = None
    from_dlpack: Callable[[Any], Any] | None = None
    immutable: bool = False
    distributions: tuple[str, ...] = ()
    wider: str = ""
    before_import: Callable[[], None] | None = None
    _fast: FastPaths = FastPaths()
    _batches: Batches = Batches()

    def load(self) -> ModuleType:
        """Import the framework, or raise an error that says which command installs it."""
        if self.before_import is not None and self.modules[0] not in sys.modules:
            self.before_import()
        try:
            return importlib.import_module(self.modules[0])
        except ImportError as error:
            package = (*self.distributions, self.name)[0]
            package = f'"{package}"' if "[" in package else package  # some shells would expand the brackets
            raise NotInstalledError(
                f"{self.name} cannot be imported ({error})", f"pip install {package}"
            ) from error
