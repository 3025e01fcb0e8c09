"""The containers that are walked, and how each is built again as itself."""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from arrayferry._core.framework import forget_decisions
from arrayferry._core.tree import Container
from arrayferry.errors import UnsupportedError

__all__ = ["OBJECT_ARRAY", "container_for", "handle_dict", "register_container"]

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


def _refuse(old: Any) -> UnsupportedError:
    kind = type(old).__qualname__
    return UnsupportedError(
        f"a {kind} cannot be built again from its converted values",
        f"arrayferry.register_container({kind}, values=..., build=...)",
    )


def _build_mapping(old: Mapping[Any, Any], new: list[Any]) -> Any:
    items = dict(zip(old, new))
    try:
        if isinstance(old, dict):  # its items are in the object itself, so a shallow copy is its own
            built: Any = _twin(old)
            for key, value in items.items():
                built[key] = value
        else:
            built = type(old)(items)  # type: ignore[call-arg]
        if len(built) == len(items) and all(_holds(built[key], value) for key, value in items.items()):
            return built
    except UnsupportedError:
        raise
    except Exception as error:
        raise _refuse(old) from error
    raise _refuse(old)


def _twin(old: _T) -> _T:
    """A shallow copy, to be filled with other values."""
    twin = copy.copy(old)
    if twin is old:
        raise _refuse(old)
    return twin


def _holds(found: Any, value: Any) -> bool:
    # Some mappings give their inner mappings in a new coat each time.
    return found is value or (isinstance(value, Mapping) and type(found) is type(value))


def _build_list(old: list[Any], new: list[Any]) -> list[Any]:
    built = _twin(old)
    built[:] = new
    return built


def _build_deque(old: deque[Any], new: list[Any]) -> deque[Any]:
    built = _twin(old)
    built.clear()
    built.extend(new)
    return built


def _build_tuple(old: tuple[Any, ...], new: list[Any]) -> Any:
    try:
        built = tuple.__new__(type(old), new)
    except TypeError:  # a struct sequence, such as time.struct_time
        return type(old)(new)
    getattr(built, "__dict__", {}).update(getattr(old, "__dict__", {}))
    return built


def _build_dataclass(old: Any, new: list[Any]) -> Any:
    built = _twin(old)
    for name, value in zip(_field_names(old), new):
        object.__setattr__(built, name, value)  # frozen ones refuse their own
    return built


def _field_names(old: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(old) if hasattr(old, field.name)]


_DATACLASS = Container(
    keys=_field_names,
    values=lambda old: [getattr(old, name) for name in _field_names(old)],
    build=_build_dataclass,
    step=_attribute,
)
_NAMED_TUPLE = Container(lambda old: old._fields, iter, lambda old, new: old._make(new), _attribute)

_KEYED = Container(lambda old: old.keys(), lambda old: [old[key] for key in old], _build_mapping)

# The kinds in the order in which a type is tried.
_KINDS: list[tuple[Callable[[type], bool], Container]] = [
    (lambda cls: cls is dict, _DICT),
    (lambda cls: cls is list, _LIST),
    (lambda cls: cls is tuple, _TUPLE),
    (lambda cls: issubclass(cls, dict), _KEYED),
    (lambda cls: issubclass(cls, tuple) and hasattr(cls, "_make"), _NAMED_TUPLE),
    (lambda cls: issubclass(cls, tuple), Container(_TUPLE.keys, iter, _build_tuple)),
    (lambda cls: issubclass(cls, list), Container(_LIST.keys, iter, _build_list)),
    (lambda cls: issubclass(cls, deque), Container(_LIST.keys, iter, _build_deque)),
    (dataclasses.is_dataclass, _DATACLASS),
    (lambda cls: issubclass(cls, Mapping), _KEYED),
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


def handle_dict(value: dict[Any, Any], references: int) -> Any:
    """The handler for `dict`, of which many infos are, and are empty."""
    return _DICT if value else {}


def container_for(cls: type) -> Container | None:
    """How to walk objects of this type, or None if they are leaves."""
    return next((kind for fits, kind in _KINDS if fits(cls)), None)


def registered_container(cls: type) -> Container | None:
    """What the user registered for this type or one of its bases."""
    return next((_registered[base] for base in cls.__mro__ if base in _registered), None)
