"""How each container is opened, and built again as itself.

A subclass keeps its attributes, converted like everything else in it. None of its own methods is called
to build it: an overridden `__setitem__` may write where the original can see it.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from arrayferry._core.type_cache import forget_decisions
from arrayferry._core.walk import Attribute, Container
from arrayferry.errors import FerryError, UnsupportedError

__all__ = [
    "DICT",
    "LIST",
    "OBJECT_ARRAY",
    "TUPLE",
    "container_of",
    "register_container",
    "told_with_its_cause",
]

_T = TypeVar("_T")
_P = ParamSpec("_P")

DICT = Container(
    open=lambda old: (old.keys(), old.values()),
    build=lambda old, keys, new: dict(zip(keys, new)),
    counted=True,
)
LIST = Container(
    open=lambda old: ((), old),
    build=lambda old, keys, new: new,
    step=lambda keys, index: f"[{index}]",
    counted=True,
)
TUPLE = Container(
    open=lambda old: ((), old),
    build=lambda old, keys, new: tuple(new),
    step=lambda keys, index: f"[{index}]",
    counted=True,
)


def _build_object_array(old: np.ndarray[Any, Any], shape: Any, new: list[Any]) -> np.ndarray[Any, Any]:
    # One by one: assigned as a whole, arrays among the elements would be broadcast.
    array = np.empty(old.shape, object)
    for index, element in zip(np.ndindex(old.shape), new):
        array[index] = element
    return array


OBJECT_ARRAY = Container(
    open=lambda old: (old.shape, np.asarray(old).flat),
    build=_build_object_array,
    step=lambda shape, index: str([int(axis) for axis in np.unravel_index(index, shape)]),
)


def told_with_its_cause(call: Callable[_P, _T], what: Callable[_P, str], hint: str) -> Callable[_P, _T]:
    """Wrap somebody else's code: whatever it raises becomes the cause of an `UnsupportedError`."""

    @wraps(call)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return call(*args, **kwargs)
        except (FerryError, MemoryError):
            raise
        except Exception as error:
            raise UnsupportedError(
                f"{what(*args, **kwargs)}: {type(error).__name__}: {error}", hint
            ) from error

    return wrapped


def _guarded(
    cls: type, open: Callable[[Any], Any], build: Callable[[Any, Any, list[Any]], Any], **options: Any
) -> Container:
    """Return a container whose class may run code of its own when it is read or built."""
    kind = cls.__qualname__
    hint = f"arrayferry.register_container({kind}, values=..., build=...)"
    return Container(
        told_with_its_cause(open, lambda old: f"a {kind} cannot be read", hint),
        told_with_its_cause(build, lambda old, keys, new: f"a {kind} cannot be built again", hint),
        **options,
    )


# ---- subclasses, which may carry attributes -----------------------------------------------------------


def _attributes(old: Any) -> dict[str, Any]:
    """Return what an object carries besides its items: its `__dict__`, and its slots."""
    own = getattr(old, "__dict__", None)
    found = {} if own is None or own is old else dict(own)
    for cls in type(old).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(old, name):
                found.setdefault(name, getattr(old, name))
    return found


def _with_attributes(old: Any, new: Any, attributes: Iterable[tuple[str, Any]]) -> Any:
    if getattr(old, "__dict__", None) is old:  # items that can be reached as attributes
        new.__dict__ = new
    for name, value in attributes:
        object.__setattr__(new, name, value)  # a frozen class refuses its own way
    return new


def _opener(items: Callable[[Any], tuple[Iterable[Any], Iterable[Any]]]) -> Callable[[Any], Any]:
    """Return what opens a subclass: its items first, then its attributes."""

    def open(old: Any) -> tuple[list[Any], list[Any]]:
        (keys, values), attributes = items(old), _attributes(old)
        return [*keys, *map(Attribute, attributes)], [*values, *attributes.values()]

    return open


def _builder(fill: Callable[[Any, list[Any], list[Any]], Any]) -> Callable[[Any, Any, list[Any]], Any]:
    """Return what builds a subclass: `fill(original, keys, values)`, and its attributes."""

    def build(old: Any, keys: list[Any], new: list[Any]) -> Any:
        count = sum(type(key) is not Attribute for key in keys)
        return _with_attributes(old, fill(old, keys[:count], new[:count]), zip(keys[count:], new[count:]))

    return build


def _base(old: dict[Any, Any]) -> Any:
    """Return the class of the standard library whose methods do what they say."""
    return next(base for base in (OrderedDict, defaultdict, dict) if isinstance(old, base))


def _fill_dict(old: dict[Any, Any], keys: list[Any], new: list[Any]) -> Any:
    base = _base(old)
    built = base.__new__(type(old))
    if isinstance(old, defaultdict):
        built.default_factory = old.default_factory
    for key, value in zip(keys, new):
        base.__setitem__(built, key, value)
    return built


def _fill_list(old: list[Any], keys: list[Any], new: list[Any]) -> Any:
    built = list.__new__(type(old))
    list.extend(built, new)
    return built


def _fill_deque(old: deque[Any], keys: list[Any], new: list[Any]) -> Any:
    built = deque.__new__(type(old))
    deque.__init__(built, new, old.maxlen)
    return built


def _fill_tuple(old: tuple[Any, ...], keys: list[Any], new: list[Any]) -> Any:
    if hasattr(old, "n_sequence_fields"):  # a struct sequence, such as time.struct_time
        return type(old)(new)
    return tuple.__new__(type(old), new)


def _dict_items(old: dict[Any, Any]) -> tuple[Iterable[Any], Iterable[Any]]:
    base = _base(old)
    return base.keys(old), base.values(old)


def _named_items(old: Any) -> tuple[Iterable[Any], Iterable[Any]]:
    return old._fields, tuple.__iter__(old)


def _positions(base: Any) -> Callable[[Any], tuple[Iterable[Any], Iterable[Any]]]:
    return lambda old: (range(base.__len__(old)), base.__iter__(old))


def _dataclass_items(old: Any) -> tuple[list[str], list[Any]]:
    names = [field.name for field in dataclasses.fields(old) if hasattr(old, field.name)]
    names = list(dict.fromkeys([*names, *_attributes(old)]))  # what else was set may be of the same arrays
    return [*map(Attribute, names)], [getattr(old, name) for name in names]


def _build_dataclass(old: Any, keys: list[Any], new: list[Any]) -> Any:
    return _with_attributes(old, object.__new__(type(old)), zip(keys, new))


def _build_dict_dataclass(old: Any, keys: list[Any], new: list[Any]) -> Any:
    """Build a dataclass that is a dict, too: its fields are the items of the same names."""
    built = _builder(_fill_dict)(old, keys, new)
    for name in type(old).__dataclass_fields__:
        if name in built:
            object.__setattr__(built, name, dict.__getitem__(built, name))
    return built


def _mapping_items(old: Mapping[Any, Any]) -> tuple[list[Any], list[Any]]:
    # Read once: some mappings change their order when they are read.
    keys = list(old)
    return keys, [old[key] for key in keys]


def _build_mapping(old: Mapping[Any, Any], keys: list[Any], new: list[Any]) -> Any:
    items = dict(zip(keys, new))
    built: Any = type(old)(items)  # type: ignore[call-arg]
    if len(built) != len(items) or not all(_holds(built[key], value) for key, value in items.items()):
        raise ValueError("it has other values than it was given")
    return built


def _holds(found: Any, value: Any) -> bool:
    # Some mappings return their inner mappings in a new wrapper each time.
    return found is value or (isinstance(value, Mapping) and type(found) is type(value))


# ---- which is which -----------------------------------------------------------------------------------


def container_of(cls: type) -> Container | None:
    """Return how containers of this type are opened and built; None if it is no container."""
    if (known := registered_container(cls)) is not None:
        return known
    if cls in _EXACT:
        return _EXACT[cls]
    for base, items, build in _SUBCLASSES:
        if issubclass(cls, base):
            if base is tuple and hasattr(cls, "_fields"):
                items = _named_items
            if base is dict and dataclasses.is_dataclass(cls):
                build = _build_dict_dataclass
            names = _attribute_steps if items is _named_items else {}
            return _guarded(cls, _opener(items), build, **names)
    if dataclasses.is_dataclass(cls):
        return _guarded(cls, _dataclass_items, _build_dataclass)
    return _guarded(cls, _mapping_items, _build_mapping) if issubclass(cls, Mapping) else None


_EXACT: dict[type, Container] = {dict: DICT, list: LIST, tuple: TUPLE}
_SUBCLASSES: list[tuple[type, Callable[[Any], Any], Callable[[Any, Any, list[Any]], Any]]] = [
    (dict, _dict_items, _builder(_fill_dict)),
    (tuple, _positions(tuple), _builder(_fill_tuple)),
    (list, _positions(list), _builder(_fill_list)),
    (deque, _positions(deque), _builder(_fill_deque)),
]
# The fields of a namedtuple are items that are written like attributes.
_attribute_steps: dict[str, Any] = {
    "step": lambda keys, index: f".{keys[index]}" if index < len(keys) else ""
}

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

    def open(old: Any) -> tuple[Iterable[Any], list[Any]]:
        found = list(values(old))
        return (range(len(found)) if keys is None else list(keys(old))), found

    _registered[cls] = _guarded(cls, open, lambda old, _, new: build(old, new))
    forget_decisions()


def registered_container(cls: type) -> Container | None:
    """Return what the user registered for this type or one of its bases."""
    return next((_registered[base] for base in cls.__mro__ if base in _registered), None)
