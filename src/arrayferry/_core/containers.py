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
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from arrayferry._core.interruptions import is_interruption
from arrayferry._core.mappings import Items, as_mapping
from arrayferry._core.messages import with_article
from arrayferry._core.objects import BASES, EQUAL_KEYS, UNCHANGING, Functions, as_object, as_struct
from arrayferry._core.type_cache import find_base, find_class, register, registration_table
from arrayferry._core.walk import Attribute, Container, describe_error, key_text
from arrayferry.errors import FerryError, UnsupportedError

__all__ = [
    "DICT",
    "LIST",
    "NUMPY_ARRAY",
    "OBJECT_ARRAY",
    "TUPLE",
    "container_of",
    "is_unknown",
    "register_container",
    "register_named",
    "register_registry",
    "wrap_errors",
]

_T = TypeVar("_T")
_P = ParamSpec("_P")


def _unflatten_dict(old: dict[Any, Any], keys: Iterable[Any], new: list[Any]) -> dict[Any, Any]:
    built = dict(zip(keys, new))
    if len(built) < len(new):
        raise ValueError(EQUAL_KEYS)
    return built


DICT = Container(
    flatten=lambda old: (old.keys(), old.values()),
    unflatten=_unflatten_dict,
    counted=True,
    copy=dict.copy,
)
LIST = Container(
    flatten=lambda old: ((), old),
    unflatten=lambda old, keys, new: new,
    format_key=lambda keys, index: f"[{index}]",
    counted=True,
    copy=list.copy,
)
TUPLE = Container(
    flatten=lambda old: ((), old),
    unflatten=lambda old, keys, new: tuple(new),
    format_key=lambda keys, index: f"[{index}]",
    counted=True,
)


def _unflatten_object_array(old: np.ndarray[Any, Any], shape: Any, new: list[Any]) -> np.ndarray[Any, Any]:
    # One by one: a single assignment would broadcast the elements that are arrays.
    array = np.empty(old.shape, object)
    for index, element in zip(np.ndindex(old.shape), new):
        array[index] = element
    return array


OBJECT_ARRAY = Container(
    flatten=lambda old: (old.shape, np.asarray(old).flat),
    unflatten=_unflatten_object_array,
    format_key=lambda shape, index: "".join(map(str, islice(map(list, np.ndindex(shape)), index, index + 1))),
)


def _parts_of(old: Any) -> dict[Any, Any]:
    """Return what an array of NumPy's holds besides plain values: objects, by field, and attributes."""
    data = np.ndarray.view(np.asanyarray(old), np.ndarray)
    parts: dict[Any, Any] = {"": data} if data.dtype.kind == "O" else {}
    parts |= {name: data[name] for name in data.dtype.names or () if data.dtype[name].hasobject}
    own = {name: part for name, part in getattr(old, "__dict__", {}).items() if name != "_mask"}
    kept = (*UNCHANGING, np.generic)
    return parts | {Attribute(name): part for name, part in own.items() if not isinstance(part, kept)}


def _unflatten_numpy_array(old: Any, names: list[Any], new: list[Any]) -> Any:
    array = np.array(np.asanyarray(old), copy=True, subok=True)  # of a record, `np.array` makes a view
    data = np.ndarray.view(array, np.ndarray)
    if getattr(array, "_mask", np.ma.nomask) is not np.ma.nomask:
        vars(array)["_mask"] = array._mask.copy()  # masked records would share it
    for name, part in zip(names, new):
        if type(name) is Attribute:
            vars(array)[str(name)] = part
        elif part.dtype.names:
            data[name] = part
        else:
            objects = data[name or ...]
            for index, before in np.ndenumerate(objects):
                if not isinstance(before, (*UNCHANGING, np.generic)):  # a record's numbers stay numbers
                    objects[index] = part[index]
    return array[()] if isinstance(old, np.void) else array


# Arrays that only NumPy has, and that hold more than plain values: structured, masked, of a subclass.
NUMPY_ARRAY = Container(
    flatten=lambda old: (list(parts := _parts_of(old)), parts.values()),
    unflatten=_unflatten_numpy_array,
    format_key=lambda keys, index: "".join(key_text(key) for key in keys[index : index + 1] if key),
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
    kind: str, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any, list[Any]], Any], **options: Any
) -> Container:
    """Return the container for a kind of class that may run its own code when an object is read or built."""
    hint = f"arrayferry.register_container({kind}, values=..., build=...)"
    one = with_article(kind)
    return Container(
        wrap_errors(flatten, lambda old: f"{one} cannot be read", hint),
        wrap_errors(unflatten, lambda old, keys, new: f"{one} cannot be rebuilt", hint),
        **options,
    )


def _flatten_proxy(old: Any) -> tuple[tuple[()], list[Any]]:
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
    return None if functions is None else _guarded(cls.__qualname__, *functions)


def _functions_of(cls: type) -> Functions | None:
    """Return the functions that flatten and unflatten objects of a type; None if they stay as they are."""
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
        return as_struct()
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
        "mappingproxy",
        _flatten_proxy,
        lambda old, keys, new: MappingProxyType(new[0]),
        format_key=lambda keys, index: "",  # its items are those of the mapping that it shows
    ),
}

_named: dict[str, Functions | None] = {}


def register_named(name: str, functions: Functions | None) -> None:
    """Register how to flatten and unflatten objects of a class whose module need not be imported yet.

    Args:
        name: the class, as `"module:name"`.
        functions: the ones that flatten and unflatten, as in `Container`; None for what stays as it is.
    """
    _named[name] = functions


def is_unknown(cls: type) -> bool:
    """Return whether objects of a class may have attributes that nobody has told anything about."""
    known = [base for name in _named if (base := find_class(name)) is not None]
    has_attributes = cls.__dictoffset__ != 0 or any(hasattr(base, "__slots__") for base in cls.__mro__)
    return has_attributes and not issubclass(cls, (type, ModuleType, FunctionType, *known))


# Consulted for dataclasses, and for types that are not containers otherwise: `(class, our own functions)` to
# better ones, or None.
_registries: list[Callable[[type, Functions | None], Functions | None]] = []


def register_registry(find: Callable[[type, Functions | None], Functions | None]) -> None:
    """Register a lookup in a library's own registry, which knows what in a container must not be touched."""
    _registries.append(find)


_registered: dict[type, Container] = registration_table()


def register_container(
    cls: type[_T],
    values: Callable[[_T], Iterable[Any]],
    build: Callable[[_T, list[Any]], _T],
    keys: Callable[[_T], Iterable[Any]] | None = None,
    *,
    replace: bool = False,
) -> None:
    """Treat a type and its subclasses as containers whose values are converted.

    Args:
        cls: the type.
        values: `(original)` to its values, each of them a leaf or another container.
        build: `(original, converted values)` to a new container of the same type as the original, which it
            must not modify. What `values` returns for the new one is checked.
        keys: `(original)` to the names of the values in messages; by default, their positions.
        replace: whether to replace what is registered for the type already.

    Raises:
        UnsupportedError: `cls` is not a class, or another argument not a function.
        OptionError: the type is registered already.

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

    def flatten(old: Any) -> tuple[Items, list[Any]]:
        originals = list(values(old))
        return Items(list(range(len(originals)) if keys is None else keys(old)), originals), originals

    def unflatten(old: Any, items: Items, new: list[Any]) -> Any:
        built = build(old, new)
        if type(built) is not type(old) or (built is old and new):
            kind = with_article(type(built).__name__)
            raise TypeError("build returned the original" if built is old else f"build returned {kind}")
        held = list(values(built))
        others = {id(value) for value in (*items.values, *new) if not isinstance(value, UNCHANGING)}
        if len(held) != len(new) or any(
            value is not given and id(value) in others for given, value in zip(new, held)
        ):
            raise ValueError("its values are not those that build was given")
        return built

    functions = {"values": values, "build": build, "keys": keys or list}
    container = _guarded(getattr(cls, "__qualname__", ""), flatten, unflatten)
    register(_registered, cls, container, functions, replace=replace)


def registered_container(cls: type) -> Container | None:
    """Return what the user registered for this type or one of its bases."""
    return find_base(_registered, cls)
