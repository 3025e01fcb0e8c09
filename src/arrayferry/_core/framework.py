"""What a framework is to us: a record of functions. And whose array is this?"""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from numpy.typing import NDArray

from arrayferry.errors import DeviceError, NotInstalledError, UnknownFrameworkError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "Framework",
    "Strangers",
    "Decisions",
    "TypeTable",
    "describe",
    "dtype_name",
    "find_framework",
    "forget_decisions",
    "load_plugins",
    "on_register",
    "owner_of",
    "register_framework",
    "registered",
]

Array = NDArray[Any]


_WIDE_SCALARS = {int: "int64", float: "float64", complex: "complex128"}


def _host_device(spec: Any) -> Any:
    if spec is None or str(spec).lower() == "cpu":
        return None
    raise DeviceError(f"no device {str(spec)!r}", "the devices here are: cpu")


@dataclass(frozen=True, eq=False, kw_only=True)
class Framework:
    """How arrays of one framework enter and leave NumPy, which every pair may go through.

    Only `name`, `modules`, `arrays`, `to_numpy`, `from_numpy` and `dtypes` are needed.

    Attributes:
        name: what users write, `"numpy"`.
        modules: the namespaces that mean this framework; the first is imported when it is used.
        arrays: its array types, as `"module:Class"`, looked up without importing anything.
        distributions: what `pip` may know it by, for its version and for the hint when it is missing.
        extra: the extra of arrayferry that installs it; empty when there is none.
        to_numpy: `(array, share)` to a NumPy view, or to a fresh array where there is no view. With
            `share`, a view or a `SharingError`. None: this array has no counterpart, leave it alone.
        from_numpy: `(ndarray, device, share)` to an array. Without `share` the memory is private and
            may be taken over; with it, the array sees the memory, or a `SharingError` is raised.
        within: `(array, device, dtype, share)`, from this framework to itself; through NumPy if None.
        place: `(array)` to the device that it is on, and where an answer to it belongs; None for the default.
        dtypes: `(device)` to the names of the dtypes it can hold there, now.
        scalars: `(device)` to the dtype names of Python's int, float and complex there.
        device: `(spec)` to the framework's own device object; None stays None.
        device_name: `(device)` to a name that `device` understands, for pickling.
        devices: `()` to the names of the devices there are.
        snapshot: `(type)` to what makes a private NumPy array of an array of exactly that type, as fast as
            it can, or None where it is in doubt.
        item: `(type)` to what makes a Python number of an array of exactly that type which has one element
            and no axes, and no number of any other, fast; None where that is in doubt.
        on_host: `(array)`, False when NumPy cannot look at its memory.
        from_dlpack: `(array)` to an array on the same memory and device, for devices beyond the host.
        before_import: `()`, called before the framework is imported; raises if that would do harm.
        wider: what a user can do to get wider dtypes, for the message when a value does not fit.
        plain_dtypes: `(device)` to the names of the dtypes whose arrays, at all times and whatever their
            bytes, `adopt` takes as they are.
        adopt: `(device)` to the framework's fastest `from_numpy`, for private memory of a plain dtype.
        aliases: whether what `adopt` gives is always on the very memory that it was given.
        outside: `()` to a function that tells whether a mode is on in which arrays should not be made, and
            one that makes the context without it.
        immutable: whether its arrays cannot be written to.
        alignment: bytes to which large private copies are aligned, for frameworks that adopt such memory.
    """

    name: str
    modules: tuple[str, ...]
    arrays: tuple[str, ...]
    to_numpy: Callable[[Any, bool], Array | None]
    from_numpy: Callable[[Array, Any, bool], Any]
    dtypes: Callable[[Any], frozenset[str]]
    distributions: tuple[str, ...] = ()
    extra: str = ""
    within: Callable[[Any, Any, str | None, bool], Any] | None = None
    place: Callable[[Any], Any] = lambda array: None
    scalars: Callable[[Any], Mapping[type, str]] = lambda device: _WIDE_SCALARS
    device: Callable[[Any], Any] = _host_device
    device_name: Callable[[Any], str] = str
    devices: Callable[[], tuple[str, ...]] = lambda: ("cpu",)
    snapshot: Callable[[type], Callable[[Any], Array | None] | None] = lambda cls: None
    item: Callable[[type], Callable[[Any], Any] | None] = lambda cls: None
    on_host: Callable[[Any], bool] | None = None
    from_dlpack: Callable[[Any], Any] | None = None
    plain_dtypes: Callable[[Any], frozenset[str]] = lambda device: frozenset()
    adopt: Callable[[Any], Callable[[Array], Any] | None] = lambda device: None
    outside: Callable[[], tuple[Callable[[], bool], Callable[[], AbstractContextManager[Any]]]] = lambda: (
        bool,
        nullcontext,
    )
    aliases: bool = False
    immutable: bool = False
    alignment: int = 0
    wider: str = ""
    before_import: Callable[[], None] | None = None

    def load(self) -> ModuleType:
        """Import the framework, or say which command installs it."""
        if self.before_import is not None and self.modules[0] not in sys.modules:
            self.before_import()
        try:
            return importlib.import_module(self.modules[0])
        except ImportError as error:
            package = f'"arrayferry[{self.extra}]"' if self.extra else (*self.distributions, self.name)[0]
            raise NotInstalledError(
                f"{self.name} cannot be imported ({error})", f"pip install {package}"
            ) from error

    def can_make(self) -> bool:
        """Whether there is a module that makes its arrays; of a stranger, only its arrays may be known."""
        module = sys.modules.get(self.modules[0])
        return self.name in _registry or hasattr(module, "asarray") or hasattr(module, "from_dlpack")


_K = TypeVar("_K")


class Decisions(dict[_K, Any]):
    """A cache that fills itself, and forgets when something is registered."""

    _all: ClassVar[weakref.WeakSet[Any]] = weakref.WeakSet()
    _times_cleared: ClassVar[int] = 0

    # A program that makes a new type in every step must not make the table grow with it.
    _limit = 10_000

    def __init__(self, decide: Callable[[_K], Any]) -> None:
        """`decide(key)` is asked once for each key."""
        super().__init__()
        self._decide = decide
        self._all.add(self)

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, key: _K) -> Any:
        if len(self) >= self._limit:
            self.clear()
        before = Decisions._times_cleared
        self[key] = found = self._decide(key)
        if Decisions._times_cleared != before:  # another thread has registered something meanwhile
            self.pop(key, None)
        return found

    @classmethod
    def clear_all(cls) -> None:
        """Empty all tables. Without a lock: a finalizer or a forked process may come here at any time."""
        Decisions._times_cleared += 1  # first, so that whoever decides before it and stores after it knows
        for table in cls._tables():
            table.clear()

    @classmethod
    def _tables(cls) -> list[Any]:
        while True:
            try:
                return list(cls._all)
            except RuntimeError:  # another thread has made a table meanwhile
                continue


TypeTable = Decisions[type]


# Called when something new is registered.
on_register: list[Callable[[], None]] = [Decisions.clear_all]


def forget_decisions() -> None:
    """Decide everything anew: something was registered."""
    for forget in on_register:
        forget()


_registry: dict[str, Framework] = {}


def registered() -> Mapping[str, Framework]:
    """The frameworks by name, in the order in which they are asked whether an array is theirs."""
    return dict(_registry)


def register_framework(framework: Framework) -> Framework:
    """Make a framework known, by its name and its namespaces.

    Registering a name again replaces it for what is made from then on; converters and wrappers that there
    are keep what they were made with.

    Python's own `array.array`, made a framework:

        >>> import numpy as np
        >>> from arrayferry import UnsupportedError
        >>> from array import array
        >>> def from_numpy(a, device, share):
        ...     if a.ndim != 1:
        ...         raise UnsupportedError("array.array has one dimension", "convert row by row")
        ...     return array(a.dtype.char, a.tolist())
        >>> stdlib = Framework(
        ...     name="array",
        ...     modules=("array",),
        ...     arrays=("array:array",),
        ...     to_numpy=lambda x, share: np.frombuffer(x, x.typecode),
        ...     from_numpy=from_numpy,
        ...     dtypes=lambda device: frozenset({"int64", "float64"}),
        ... )
        >>> register_framework(stdlib).name
        'array'
        >>> import arrayferry
        >>> arrayferry.convert({"x": np.arange(3.0)}, "array")
        {'x': array('d', [0.0, 1.0, 2.0])}
    """
    _registry[framework.name] = framework
    forget_decisions()
    return framework


def find_framework(to: str | ModuleType | Framework) -> Framework:
    """The framework that a name or a module means. Only registered names are ever imported."""
    if isinstance(to, Framework):
        return to
    name = to.__name__ if isinstance(to, ModuleType) else to
    if not isinstance(name, str):
        raise UnknownFrameworkError(f"{to!r} is no array framework", _how_to_name_one())
    # array-api-compat's namespaces mean the library that they wrap, vendored or not.
    wrapped = name.rpartition("array_api_compat.")[2]
    for framework in _registry.values():
        if wrapped == framework.name or wrapped in framework.modules:
            framework.load()
            return framework
    for plugin in _plugins():
        if plugin.name == name:
            return register_framework(plugin.load())
    module = to if isinstance(to, ModuleType) else sys.modules.get(name)
    if module is not None and (hasattr(module, "asarray") or hasattr(module, "from_dlpack")):
        return _generic(module)
    raise UnknownFrameworkError(f"{name!r} is no array framework", _how_to_name_one(name))


@cache
def _plugins() -> tuple[EntryPoint, ...]:
    """What other distributions offer."""
    from importlib.metadata import entry_points  # takes longer to import than all of arrayferry

    return tuple(entry_points(group="arrayferry.frameworks"))


def load_plugins(package: str | None = None) -> bool:
    """Register what other distributions offer; of one package, or of all. Whether there was any."""
    wanted = [one for one in _plugins() if package in (None, one.module.partition(".")[0])]
    new = [one.load() for one in wanted if one.name not in _registry]
    for framework in new:
        register_framework(framework)
    return bool(new)


def _how_to_name_one(given: str = "") -> str:
    from difflib import get_close_matches

    names = ", ".join(_registry)
    meant = "".join(f"did you mean {name!r}? Else " for name in get_close_matches(given, _registry, 1))
    return f"{meant}name one of {names}; or pass the module of any array API library; or register_framework()"


class Strangers:
    """How to meet a library that nobody registered: as a target, and as the maker of a leaf."""

    target: Callable[[ModuleType], Framework]
    source: Callable[[type], Framework | None]


@cache
def _generic(module: ModuleType) -> Framework:
    return Strangers.target(module)


def _decide_owner(cls: type) -> Framework | None:
    for framework in _registry.values():
        for name in framework.arrays:
            module, _, attribute = name.partition(":")
            base = getattr(sys.modules.get(module), attribute, None)
            if isinstance(base, type) and issubclass(cls, base):
                return framework
    package = cls.__module__.partition(".")[0]
    if package not in sys.stdlib_module_names and load_plugins(package):
        return _decide_owner(cls)
    return Strangers.source(cls)


_owners = TypeTable(_decide_owner)


def owner_of(cls: type) -> Framework | None:
    """The framework whose arrays are of this type, or None.

    It imports nothing: who has such an array has imported its framework.
    """
    owner: Framework | None = _owners[cls]
    return owner


def describe(array: Any, framework: Framework | None = None) -> str:
    """An array in a few characters, `int64[3] numpy`; of anything else, its type."""
    framework = framework or owner_of(type(array))
    try:
        shape = ",".join(map(str, array.shape))
        return f"{dtype_name(array.dtype)}[{shape}] {framework.name if framework else 'numpy'}"
    except Exception:  # a message about a broken array must not break
        return f"{type(array).__name__} {framework.name if framework else ''}".strip()


def dtype_name(dtype: Any) -> str:
    """The plain name of any framework's dtype, of a scalar type, or of a name.

    >>> import numpy as np
    >>> dtype_name(np.dtype(">f4")), dtype_name(np.int8), dtype_name("xp.bfloat16")
    ('float32', 'int8', 'bfloat16')
    """
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2].lower()
