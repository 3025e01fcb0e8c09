"""How each container is opened, and rebuilt as the same type: completely, or not at all.

`objects.py` handles subclasses, dataclasses and other mappings. If their code raises, or if something would
be lost, the result is an `UnsupportedError` that points to `register_container`.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections import ChainMap, UserDict, UserList
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from enum import Enum
from functools import wraps
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from arrayferry._core import interruptions, objects, type_cache
from arrayferry._core.interruptions import describe_error
from arrayferry._core.messages import with_article
from arrayferry._core.objects import Flatten, Keys
from arrayferry._core.walk import Container, unchanged
from arrayferry.errors import FerryError, UnsupportedError

_T = TypeVar("_T")
_P = ParamSpec("_P")


def _unflatten_dict(old: dict[Any, Any], keys: Iterable[Any], new: list[Any]) -> dict[Any, Any]:
    built = dict(zip(keys, new))
    if len(built) < len(new):
        raise ValueError(objects.EQUAL_KEYS)
    return built


def _format_index(keys: Any, index: int) -> str:
    return f"[{index}]"


DICT = Container(lambda old: (old.keys(), old.values()), _unflatten_dict, counted=True, copy=dict.copy)
TUPLE = Container(lambda old: ((), old), lambda old, keys, new: tuple(new), _format_index, counted=True)
LIST = dataclasses.replace(TUPLE, unflatten=lambda old, keys, new: new, copy=list.copy)


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


def wrap_errors(call: Callable[_P, _T], what: str, hint: str) -> Callable[_P, _T]:
    """Wrap somebody else's code: whatever it raises becomes the cause of an `UnsupportedError`."""

    @wraps(call)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            if isinstance(error, FerryError) or interruptions.is_interruption(error):
                raise
            raise UnsupportedError(f"{what}: {describe_error(error)}", hint) from error

    return wrapped


def _guarded(kind: str, flatten: Flatten) -> Container:
    """Return the container for a kind of class that may run its own code when an object is read or built."""
    hint, what = f"arrayferry.register_container({kind}, values=..., build=...)", with_article(kind)
    return Container(
        wrap_errors(flatten, f"{what} cannot be read", hint),
        wrap_errors(lambda old, keys, new: keys.build(new), f"{what} cannot be rebuilt", hint),
    )


# Whose objects `pickle` copies; other classes may write the addresses of objects instead, as mrecords do.
_OF_OBJECTS = np.ndarray, np.recarray, np.void, np.record, np.ma.MaskedArray, np.ma.core.mvoid


def _copy_whole(array: Any) -> Any:
    if array.dtype.hasobject and type(array) not in _OF_OBJECTS:
        raise TypeError(f"the objects in {with_article(type(array).__name__)} cannot be copied safely")
    new = pickle.loads(pickle.dumps(array))  # `deepcopy` would share the objects in some structured arrays
    if own := getattr(array, "__dict__", None):
        vars(new).update(deepcopy(own))
    return new


# Arrays that only NumPy has, and that hold more than plain values: structured, masked, of a subclass.
NUMPY_ARRAY = _guarded("ndarray", lambda old: (Keys((), lambda new: _copy_whole(old)), []))


# ---- which is which -----------------------------------------------------------------------------------


def container_of(cls: type) -> Container | None:
    """Return how containers of this type are opened and built; None if the type is not a container."""
    if (known := registered_container(cls) or _EXACT.get(cls)) is not None:
        return known
    flatten = _find_in_libraries(cls) or flatten_of(cls)
    return None if flatten is None or flatten is unchanged else _guarded(cls.__qualname__, flatten)


_EXACT: dict[type, Container] = {dict: DICT, list: LIST, tuple: TUPLE}

# What libraries say about their own classes: `(class)` to what flattens its objects, to `unchanged` if they
# only look like containers, or to None for any other class.
libraries: list[Callable[[type], Any]] = []


def _find_in_libraries(cls: type) -> Any:
    return next(filter(None, (find(cls) for find in libraries)), None)


def flatten_of(cls: type) -> Flatten | None:
    """Return the function that flattens objects of a class that no library knows; None if they are leaves."""
    if issubclass(cls, Enum):
        return None
    is_whole = dataclasses.is_dataclass(cls) or issubclass(cls, (UserDict, UserList, ChainMap))
    for base in objects.BASES:
        if issubclass(cls, base) and (is_whole or base is not object):
            return objects.as_object(cls, base)
    return objects.as_mapping(cls) if issubclass(cls, Mapping) else None


def is_unknown(cls: type) -> bool:
    """Return whether objects of a class may have attributes that nobody has told anything about."""
    has_attributes = cls.__dictoffset__ != 0 or any(hasattr(base, "__slots__") for base in cls.__mro__)
    is_known = issubclass(cls, (type, ModuleType, FunctionType)) or _find_in_libraries(cls) is not None
    return has_attributes and not is_known


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

    def flatten(old: Any) -> tuple[Keys, list[Any]]:
        originals = list(values(old))

        def build_checked(new: list[Any]) -> Any:
            built = build(old, new)
            if built is old and new:
                raise TypeError("build returned the original")
            if type(built) is not type(old):
                raise TypeError(f"build returned {with_article(type(built).__name__)}")
            held = list(values(built))
            others = {id(value) for value in (*originals, *new) if not isinstance(value, objects.UNCHANGING)}
            wrong = [value for given, value in zip(new, held) if value is not given and id(value) in others]
            if wrong or len(held) != len(new):
                raise ValueError("its values are not those that build was given")
            return built

        return Keys(range(len(originals)) if keys is None else keys(old), build_checked), originals

    container = _guarded(getattr(cls, "__qualname__", ""), flatten)
    functions = {"values": values, "build": build, "keys": keys or list}
    type_cache.register(cls, container, functions, replace=replace)


def registered_container(cls: type) -> Container | None:
    """Return what the user registered for this type or one of its bases."""
    return type_cache.find_registered(Container, cls)  # type: ignore[no-any-return]
