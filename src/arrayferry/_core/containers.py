"""How each container is opened, and rebuilt as the same type: completely, or not at all.

`objects.py` handles subclasses and dataclasses, `mappings.py` other mappings. If their code raises, or if
something would be lost, the result is an `UnsupportedError` that points to `register_container`.
"""

from __future__ import annotations

import dataclasses
import gc
from collections import ChainMap, UserDict, UserList
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import wraps
from itertools import islice
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from arrayferry._core.interruptions import is_interruption
from arrayferry._core.mappings import as_mapping
from arrayferry._core.messages import with_article
from arrayferry._core.objects import BASES, Functions, as_object, as_struct
from arrayferry._core.type_cache import find_base, find_class, forget_decisions
from arrayferry._core.walk import Container, describe_error
from arrayferry.errors import FerryError, UnsupportedError

__all__ = [
    "DICT",
    "LIST",
    "OBJECT_ARRAY",
    "TUPLE",
    "container_of",
    "register_container",
    "register_named",
    "register_registry",
    "wrap_errors",
]

_T = TypeVar("_T")
_P = ParamSpec("_P")

DICT = Container(
    open=lambda old: (old.keys(), old.values()),
    build=lambda old, keys, new: dict(zip(keys, new)),
    counted=True,
    copy=dict.copy,
)
LIST = Container(
    open=lambda old: ((), old),
    build=lambda old, keys, new: new,
    format_key=lambda keys, index: f"[{index}]",
    counted=True,
    copy=list.copy,
)
TUPLE = Container(
    open=lambda old: ((), old),
    build=lambda old, keys, new: tuple(new),
    format_key=lambda keys, index: f"[{index}]",
    counted=True,
)


def _build_object_array(old: np.ndarray[Any, Any], shape: Any, new: list[Any]) -> np.ndarray[Any, Any]:
    # One by one: a single assignment would broadcast the elements that are arrays.
    array = np.empty(old.shape, object)
    for index, element in zip(np.ndindex(old.shape), new):
        array[index] = element
    return array


OBJECT_ARRAY = Container(
    open=lambda old: (old.shape, np.asarray(old).flat),
    build=_build_object_array,
    format_key=lambda shape, index: "".join(map(str, islice(map(list, np.ndindex(shape)), index, index + 1))),
)


def wrap_errors(call: Callable[_P, _T], what: Callable[_P, str], hint: str) -> Callable[_P, _T]:
    """Wrap somebody else's code: whatever it raises becomes the cause of an `UnsupportedError`."""

    @wraps(call)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return call(*args, **kwargs)
        except FerryError:
            raise
        except Exception as error:
            if is_interruption(error):
                raise
            raise UnsupportedError(f"{what(*args, **kwargs)}: {describe_error(error)}", hint) from error

    return wrapped


def _guarded(
    cls: type, open: Callable[[Any], Any], build: Callable[[Any, Any, list[Any]], Any], **options: Any
) -> Container:
    """Return the container for a class that may run its own code when an object is read or built."""
    kind = cls.__qualname__
    hint = f"arrayferry.register_container({kind}, values=..., build=...)"
    one = with_article(kind)
    return Container(
        wrap_errors(open, lambda old: f"{one} cannot be read", hint),
        wrap_errors(build, lambda old, keys, new: f"{one} cannot be rebuilt", hint),
        **options,
    )


def _open_proxy(old: Any) -> tuple[tuple[()], list[Any]]:
    (shown,) = gc.get_referents(old)
    if container_of(type(shown)) is None:
        raise TypeError(f"it wraps {with_article(type(shown).__name__)}, which is not a container")
    return (), [shown]


# ---- which is which -----------------------------------------------------------------------------------


def container_of(cls: type) -> Container | None:
    """Return how containers of this type are opened and built; None if the type is not a container."""
    if (known := registered_container(cls)) is not None:
        return known
    if cls in _EXACT:
        return _EXACT[cls]
    functions = _functions_of(cls)
    return None if functions is None else _guarded(cls, *functions)


def _functions_of(cls: type) -> Functions | None:
    """Return the functions that open and build objects of a type; None if they stay as they are."""
    for name, functions in _named.items():
        if (base := find_class(name)) is not None and issubclass(cls, base):
            return functions
    own = _own_functions(cls)
    if own is None or dataclasses.is_dataclass(cls):
        return next(filter(None, (find(cls, own) for find in _registries)), own)
    return own


def _own_functions(cls: type) -> Functions | None:
    if issubclass(cls, Enum):
        return None
    if issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields"):
        return as_struct(cls)
    is_whole = dataclasses.is_dataclass(cls) or issubclass(cls, (UserDict, UserList, ChainMap))
    for base in BASES:
        if issubclass(cls, base) and (is_whole or base not in (BaseException, object)):
            return as_object(cls, base)
    return as_mapping(cls) if issubclass(cls, Mapping) else None


_EXACT: dict[type, Container] = {
    dict: DICT,
    list: LIST,
    tuple: TUPLE,
    MappingProxyType: _guarded(
        MappingProxyType,
        _open_proxy,
        lambda old, keys, new: MappingProxyType(new[0]),
        format_key=lambda keys, index: "",  # its items are those of the mapping that it shows
    ),
}

_named: dict[str, Functions | None] = {}


def register_named(name: str, functions: Functions | None) -> None:
    """Register how to open and build objects of a class whose module need not be imported yet.

    Args:
        name: the class, as `"module:name"`.
        functions: the ones that open and build, as in `Container`; None for objects that stay as they are.
    """
    _named[name] = functions


# Consulted for dataclasses, and for types that are not containers otherwise: `(class, our own functions)` to
# better ones, or None.
_registries: list[Callable[[type, Functions | None], Functions | None]] = []


def register_registry(find: Callable[[type, Functions | None], Functions | None]) -> None:
    """Register a lookup in a library's own registry, which knows what in a container must not be touched."""
    _registries.append(find)


_registered: dict[type, Container] = {}


def register_container(
    cls: type[_T],
    values: Callable[[_T], Iterable[Any]],
    build: Callable[[_T, list[Any]], _T],
    keys: Callable[[_T], Iterable[Any]] | None = None,
) -> None:
    """Treat a type and its subclasses as containers whose values are converted.

    Args:
        cls: the type.
        values: `(original)` to its values, each of them a leaf or another container.
        build: `(original, converted values)` to a new container; it must not modify the original.
        keys: `(original)` to the names of the values in messages; by default, their positions.

    Example:
        >>> import arrayferry
        >>> class Pair:
        ...     def __init__(self, left, right):
        ...         self.left, self.right = left, right
        >>> arrayferry.register_container(
        ...     Pair, values=lambda p: (p.left, p.right), build=lambda _, new: Pair(*new)
        ... )
        >>> arrayferry.convert(Pair(1, "one"), "numpy").left
        array(1)
    """

    def open(old: Any) -> tuple[Iterable[Any], list[Any]]:
        found = list(values(old))
        return (range(len(found)) if keys is None else list(keys(old))), found

    _registered[cls] = _guarded(cls, open, lambda old, _, new: build(old, new))
    forget_decisions()


def registered_container(cls: type) -> Container | None:
    """Return what the user registered for this type or one of its bases."""
    return find_base(_registered, cls)
