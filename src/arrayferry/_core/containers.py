"""The containers that are walked, and how each is built again as itself.

Subclasses keep their attributes as they are; only what they contain is converted. None of their own
methods is called to build them: an overridden `__setitem__` may write where the original can see it.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from arrayferry._core.framework import forget_decisions
from arrayferry._core.tree import Container, Handler
from arrayferry.errors import UnsupportedError

__all__ = [
    "OBJECT_ARRAY",
    "container_handler",
    "register_container",
    "registered_container",
]

_T = TypeVar("_T")

_DICT = Container(dict.keys, dict.values, lambda old, new: dict(zip(old, new)), counted=True)
_LIST = Container(lambda old: range(len(old)), iter, lambda _, new: new, counted=True)
_TUPLE = Container(lambda old: range(len(old)), iter, lambda _, new: tuple(new), counted=True)


def _attribute(name: str) -> str:
    return f".{name}"


def _build_object_array(old: np.ndarray[Any, Any], new: list[Any]) -> np.ndarray[Any, Any]:
    # One by one: assigned as a whole, arrays among the elements would be broadcast.
    array = np.empty(old.shape, object)
    for index, element in zip(np.ndindex(old.shape), new):
        array[index] = element
    return array


OBJECT_ARRAY = Container(
    keys=lambda old: np.ndindex(old.shape),
    values=lambda old: np.asarray(old).flat,
    build=_build_object_array,
    step=lambda index: str(list(index)),
)


def _guarded(build: Callable[[Any, list[Any]], Any]) -> Callable[[Any, list[Any]], Any]:
    """A class that cannot be built again is refused, however it says so."""

    def guarded(old: Any, new: list[Any]) -> Any:
        try:
            return build(old, new)
        except Exception as error:
            kind = type(old).__qualname__
            raise UnsupportedError(
                f"a {kind} cannot be built again from its converted values",
                f"arrayferry.register_container({kind}, values=..., build=...)",
            ) from error

    return guarded


def _with_attributes(old: Any, new: Any) -> Any:
    """The new one, with the attributes of the old."""
    own = getattr(old, "__dict__", None)
    if own is old:  # items that can be reached as attributes
        new.__dict__ = new
    elif own:
        new.__dict__.update(own)
    for cls in type(old).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(old, name):
                object.__setattr__(new, name, getattr(old, name))
    return new


def _base(old: dict[Any, Any]) -> Any:
    """The class of the standard library whose methods do what they say."""
    return next(base for base in (OrderedDict, defaultdict, dict) if isinstance(old, base))


def _build_dict(old: dict[Any, Any], new: list[Any]) -> Any:
    base = _base(old)
    built = _with_attributes(old, base.__new__(type(old)))
    if isinstance(old, defaultdict):
        built.default_factory = old.default_factory
    for key, value in zip(base.keys(old), new):
        base.__setitem__(built, key, value)
    for name in getattr(type(old), "__dataclass_fields__", ()):  # a dataclass that is a dict, too
        if name in built:
            object.__setattr__(built, name, base.__getitem__(built, name))
    return built


def _build_list(old: list[Any], new: list[Any]) -> Any:
    built = _with_attributes(old, list.__new__(type(old)))
    list.extend(built, new)
    return built


def _build_deque(old: deque[Any], new: list[Any]) -> Any:
    built = deque.__new__(type(old))
    deque.__init__(built, new, old.maxlen)
    return _with_attributes(old, built)


def _build_tuple(old: tuple[Any, ...], new: list[Any]) -> Any:
    if hasattr(old, "n_sequence_fields"):  # a struct sequence, such as time.struct_time
        return type(old)(new)
    return _with_attributes(old, tuple.__new__(type(old), new))


def _build_dataclass(old: Any, new: list[Any]) -> Any:
    built = object.__new__(type(old))
    for name, value in zip(_attribute_names(old), new):
        object.__setattr__(built, name, value)  # a frozen one refuses its own way
    return built


def _attribute_names(old: Any) -> list[str]:
    """Its fields, and what else was set on it: that may be made of the same arrays."""
    fields = [field.name for field in dataclasses.fields(old) if hasattr(old, field.name)]
    return list(dict.fromkeys([*fields, *getattr(old, "__dict__", ())]))


def _mapping(old: Mapping[Any, Any], references: int) -> Container:
    # Looked at once: some mappings change their order when they are read.
    keys = list(old)
    values = [old[key] for key in keys]
    return Container(
        lambda _: keys, lambda _: values, _guarded(lambda old, new: _fill(old, dict(zip(keys, new))))
    )


def _fill(old: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    built: Any = type(old)(items)  # type: ignore[call-arg]
    if len(built) != len(items) or not all(_holds(built[key], value) for key, value in items.items()):
        raise ValueError("it has other values than it was given")
    return built


def _holds(found: Any, value: Any) -> bool:
    # Some mappings give their inner mappings in a new coat each time.
    return found is value or (isinstance(value, Mapping) and type(found) is type(value))


# The kinds in the order in which a type is tried.
_KINDS: list[tuple[Callable[[type], bool], Container]] = [
    (lambda cls: cls is list, _LIST),
    (lambda cls: cls is tuple, _TUPLE),
    (
        lambda cls: issubclass(cls, OrderedDict),
        Container(OrderedDict.keys, lambda old: list(OrderedDict.values(old)), _guarded(_build_dict)),
    ),
    (lambda cls: issubclass(cls, dict), Container(dict.keys, dict.values, _guarded(_build_dict))),
    (
        lambda cls: issubclass(cls, tuple) and hasattr(cls, "_fields"),
        Container(lambda old: old._fields, tuple.__iter__, _guarded(_build_tuple), _attribute),
    ),
    (lambda cls: issubclass(cls, tuple), Container(_TUPLE.keys, tuple.__iter__, _guarded(_build_tuple))),
    (lambda cls: issubclass(cls, list), Container(_LIST.keys, list.__iter__, _guarded(_build_list))),
    (lambda cls: issubclass(cls, deque), Container(_LIST.keys, deque.__iter__, _guarded(_build_deque))),
    (
        dataclasses.is_dataclass,
        Container(
            keys=_attribute_names,
            values=lambda old: [getattr(old, name) for name in _attribute_names(old)],
            build=_guarded(_build_dataclass),
            step=_attribute,
        ),
    ),
]

_registered: dict[type, Container] = {}


def register_container(
    cls: type[_T],
    values: Callable[[_T], Iterable[Any]],
    build: Callable[[_T, list[Any]], _T],
    keys: Callable[[_T], Iterable[Any]] | None = None,
) -> None:
    """Make a type, and its subclasses, a container whose values are converted.

    Args:
        cls: the type.
        values: its values, each of them a leaf or another container.
        build: `(original, converted values)` to a new container; the original stays as it is.
        keys: what the values are called in messages; their positions if not given.

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
    position: Callable[[Any], Iterable[Any]] = lambda old: range(len(list(values(old))))  # noqa: E731
    _registered[cls] = Container(keys or position, values, build)
    forget_decisions()


def registered_container(cls: type) -> Container | None:
    """What the user registered for this type or one of its bases."""
    return next((_registered[base] for base in cls.__mro__ if base in _registered), None)


def handle_dict(value: dict[Any, Any], references: int) -> Any:
    """The handler for `dict`, of which many infos are, and are empty."""
    return _DICT if value else {}


def container_handler(cls: type) -> Handler | None:
    """What to do with objects of this type, if it is a container."""
    if cls is dict:
        return handle_dict
    if (kind := registered_container(cls)) or (kind := next((k for fits, k in _KINDS if fits(cls)), None)):
        return lambda value, references: kind
    return _mapping if issubclass(cls, Mapping) else None
