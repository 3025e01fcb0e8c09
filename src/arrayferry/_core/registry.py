"""Which frameworks there are, and which of them an array belongs to."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any

from arrayferry._core import dtypes, generic, interruptions, messages, type_cache
from arrayferry._core.framework import Framework, Source
from arrayferry.errors import OptionError, UnknownFrameworkError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_registry: dict[str, Framework] = {}


def registered() -> Mapping[str, Framework]:
    """Return the frameworks by name, in the order in which they are asked whether an array is theirs."""
    return dict(_registry)  # another thread may register one meanwhile


def register_framework(framework: Framework, *, replace: bool = False) -> Framework:
    """Register a framework under its name and its namespaces.

    Existing converters and wrappers keep what they were made with.

    Args:
        framework: the framework; `Framework` shows how to write one.
        replace: whether to replace the one that is registered under this name already.

    Raises:
        OptionError: it is not complete, or its name is taken.

    Example:
        >>> from arrayferry.errors import OptionError
        >>> try:
        ...     register_framework(find_framework("numpy"))
        ... except OptionError as error:
        ...     print(error)
        'numpy' is registered already
        Hint: pass replace=True to replace it
    """
    _refuse_if_incomplete(framework)
    if framework.name in _registry and not replace:
        raise OptionError(f"{framework.name!r} is registered already", "pass replace=True to replace it")
    _registry[framework.name] = framework
    type_cache.clear_type_caches()
    return framework


def _refuse_if_incomplete(framework: Any) -> None:
    if not isinstance(framework, Framework):
        hint = "pass an instance of a subclass of arrayferry.Framework"
        raise OptionError(f"{framework!r} is not a framework", hint)
    kind = type(framework).__name__
    for attribute in "name", "modules", "arrays", "distributions":
        given = getattr(framework, attribute, None)
        names, what = ((given,), "a text") if attribute == "name" else (given, "a tuple of names")
        is_names = isinstance(names, tuple) and all(name and isinstance(name, str) for name in names)
        if not is_names or (attribute == "modules" and not names):
            hint = f"set its attribute, such as {attribute} = {getattr(_registry['numpy'], attribute)!r}"
            raise OptionError(f"{kind} has {attribute}={given!r}, not {what}", hint)
    if wrong := [name for name in framework.arrays if not all(name.partition(":"))]:
        raise OptionError(f"{kind} has arrays={wrong!r}", 'write each as "module:Class"')


def find_framework(to: str | ModuleType | Framework) -> Framework:
    """Return the framework that a name or module stands for. Only registered names are ever imported."""
    if isinstance(to, Framework):
        return to
    name = to.__name__ if isinstance(to, ModuleType) else to
    if not isinstance(name, str):
        raise UnknownFrameworkError(f"{to!r} is not an array framework", _how_to_name_one())
    # array-api-compat's namespaces stand for the library that they wrap, vendored or not.
    wrapped = name.rpartition("array_api_compat.")[2]
    for framework in registered().values():
        if wrapped == framework.name or wrapped in framework.modules:
            framework.load()
            return framework
    for plugin in _plugins():
        if plugin.name == name:
            return _load_plugin(plugin)
    module = to if isinstance(to, ModuleType) else sys.modules.get(name)
    if module is not None and (hasattr(module, "asarray") or hasattr(module, "from_dlpack")):
        return generic.framework_of_module(module)
    raise UnknownFrameworkError(f"{name!r} is not an array framework", _how_to_name_one(name))


@cache
def _plugins() -> tuple[EntryPoint, ...]:
    """Return the entry points of other distributions' frameworks."""
    from importlib.metadata import entry_points  # takes longer to import than all of arrayferry

    return tuple(entry_points(group="arrayferry.frameworks"))


def _plugins_of(cls: type) -> Iterator[Framework]:
    """Register the frameworks that the package of a type brings with it."""
    package = str(cls.__module__).partition(".")[0]
    if package not in sys.stdlib_module_names:
        for plugin in _plugins():
            if plugin.module.partition(".")[0] == package and plugin.name not in _registry:
                yield _load_plugin(plugin)


@cache
def _load_plugin(plugin: EntryPoint) -> Framework:
    """Register a plugin's framework, once: its name need not be that of the entry point."""
    framework: Framework = plugin.load()
    if framework in _registry.values():  # it has registered itself when it was imported
        return framework
    try:
        return register_framework(framework)
    except OptionError as error:
        what = f"the entry point {plugin.name!r} ({plugin.value}): {error.what}"
        raise OptionError(what, "update or uninstall the package that has it") from error


def _how_to_name_one(given: str = "") -> str:
    known = registered()
    meant = "".join(f"did you mean {name!r}? Otherwise " for name in get_close_matches(given, known, 1))
    others = "pass the module of any array API library, or call arrayferry.register_framework()"
    return f"{meant}name one of {', '.join(known)}; or {others}"


def decide_framework(cls: type) -> Framework | None:
    """Do what `framework_of` does, without its table: for decisions that go into another table.

    That table may have been emptied, because something was registered, before this one is.
    """
    for framework in chain(registered().values(), _plugins_of(cls)):
        if any((base := type_cache.find_class(name)) and issubclass(cls, base) for name in framework.arrays):
            return framework
    return generic.framework_of_type(cls)


def _decide_source(cls: type) -> Source | None:
    framework = decide_framework(cls)
    return None if framework is None else framework.source(cls)


_frameworks_by_type: dict[type, Framework | None] = type_cache.TypeCache(decide_framework)
_sources_by_type: dict[type, Source] = type_cache.TypeCache(_decide_source)


def framework_of(cls: type) -> Framework | None:
    """Return the framework whose arrays are of this type, or None.

    No framework is imported: whoever has such an array has imported its framework already.
    """
    return _frameworks_by_type[cls]


def source_of(array: Any) -> Source:
    """Return how an array is read; it belongs to a framework."""
    return _sources_by_type[type(array)]


def can_make_arrays(framework: Framework) -> bool:
    """Return whether arrays can also be made: an unregistered library may be known only by its arrays."""
    module = sys.modules.get(framework.modules[0])
    return framework.name in _registry or hasattr(module, "asarray") or hasattr(module, "from_dlpack")


def describe(array: Any, framework: Framework | None = None) -> str:
    """Describe an array briefly, such as `int64[3] numpy`; anything else by its type."""
    framework = framework or framework_of(type(array))
    with interruptions.ignore_errors():  # a message about a broken array must not break
        shape = ",".join(map(str, array.shape))
        return f"{dtypes.dtype_name(array.dtype)}[{shape}] {framework.name if framework else 'numpy'}"
    kind = type(array).__name__
    return f"{kind} {framework.name}" if framework else messages.with_article(kind)


@dataclass(frozen=True)
class FrameworkInfo:
    """One framework, as it is installed on this machine."""

    name: str
    version: str

    @property
    def devices(self) -> tuple[str, ...]:
        """Its devices. Reading them imports the framework."""
        return find_framework(self.name).device_names()


def frameworks() -> dict[str, FrameworkInfo]:
    """Return the installed frameworks by name, without importing any of them.

    >>> frameworks()["numpy"].devices
    ('cpu',)
    """
    for plugin in _plugins():
        if plugin.name not in _registry:
            _load_plugin(plugin)
    versions = {name: _version(framework) for name, framework in registered().items()}
    return {name: FrameworkInfo(name, version) for name, version in versions.items() if version is not None}


def _version(framework: Framework) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    for distribution in framework.distributions or (framework.name,):
        with suppress(PackageNotFoundError):
            return version(distribution)
    module = sys.modules.get(framework.modules[0])  # without a distribution, as in the standard library
    return None if module is None else str(getattr(module, "__version__", ""))
