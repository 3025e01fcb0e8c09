"""Objects: the items of a built-in base, a `__dict__`, and slots.

They are read and written with built-in methods, never with a class's own: an overridden `__setitem__` may
write where the original can see it, and a constructor knows nothing about what was set later.
"""

from __future__ import annotations

import dataclasses
import gc
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

from arrayferry._core.messages import with_article
from arrayferry._core.walk import Attribute

EQUAL_KEYS = "two of its keys are equal, so that one entry would be lost"

UNCHANGING = (bool, int, float, complex, str, bytes, type(None), type, types.ModuleType, types.FunctionType)


class Keys(list[Any]):
    """The keys of a container's values: first those of its items, then the names of its attributes.

    Attributes:
        build: `(new values)` to a container like the original.
        n_items: how many of the values are items.
    """

    def __init__(self, keys: Iterable[Any], build: Callable[..., Any], n_items: int | None = None) -> None:
        super().__init__(keys)
        self.build, self.n_items = build, len(self) if n_items is None else n_items


# Opens a container: returns its keys, which know how to build another one like it, and its values.
Flatten: TypeAlias = "Callable[[Any], tuple[Keys, list[Any]]]"


def as_object(cls: type, base: Any) -> Flatten:
    """Return the function that flattens objects of a class with this base, one of `BASES`.

    It keeps everything by name: a reference to the class, as a slot has one, would keep it alive for ever.
    """
    slot_places: dict[Any, tuple[int, str]] = {}
    for depth, parent in enumerate(cls.__mro__):
        for name, member in vars(parent).items():
            if isinstance(member, types.MemberDescriptorType) and issubclass(cls, member.__objclass__):
                slot_places.setdefault(member, (depth, name))
    places, has_dict = [*slot_places.values()], cls.__dictoffset__ != 0
    named = getattr(cls, "_fields", ())  # of a namedtuple
    item_names = [*map(Attribute, named)] if base is tuple and isinstance(named, tuple) else []
    fields = [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    # Fields that nobody has set have their values in the class.
    defaults = [name for name in fields if not hasattr(type(getattr(cls, name, _NO_VALUE)), "__get__")]

    def flatten(old: Any) -> tuple[Keys, list[Any]]:
        item_keys, items = _read_items(base, old, item_names)
        own = object.__getattribute__(old, "__dict__") if has_dict else {}
        is_own_dict = own is old  # its items are its attributes
        if type(own) is not dict and not is_own_dict:
            raise TypeError(f"its __dict__ is {with_article(type(own).__name__)}")
        own = {} if is_own_dict else {**own, **{name: getattr(type(old), name) for name in defaults}, **own}
        slots = {}
        for depth, name in places:
            slot = vars(type(old).__mro__[depth])[name]
            try:
                slots[slot] = slot.__get__(old)
            except AttributeError:  # it is not set
                continue
        attributes = [*own.values(), *slots.values()]
        _refuse_ties(old, attributes)

        def build(values: list[Any]) -> Any:
            n_items, n_attributes = len(items), len(items) + len(own)
            new = _make(base, old, item_keys, values[:n_items])
            if is_own_dict:
                object.__setattr__(new, "__dict__", new)
            elif own:
                object.__getattribute__(new, "__dict__").update(zip(own, values[n_items:]))
            for slot, value in zip(slots, values[n_attributes:]):
                slot.__set__(new, value)
            return new

        names = [*own, *(slot.__name__ for slot in slots)]
        return Keys([*item_keys, *map(Attribute, names)], build, len(items)), [*items, *attributes]

    return flatten


_NO_VALUE = property()  # a descriptor, like a slot, which holds no default either

BASES: tuple[Any, ...] = (OrderedDict, dict, list, tuple, deque, object)


def _read_items(base: Any, old: Any, names: list[Any]) -> tuple[Iterable[Any], list[Any]]:
    """Return an object's keys and values, read with the methods of its built-in base."""
    if not issubclass(base, dict):
        values = [] if base is object else [*base.__iter__(old)]
        return (names if len(names) == len(values) else range(len(values))), values
    keys = [*base.keys(old)]  # of an ordered one, `dict.keys` has another order
    if len(keys) < dict.__len__(old):
        raise ValueError(EQUAL_KEYS)
    return keys, [dict.__getitem__(old, key) for key in keys]  # its own `items` hides what a key raises


def _make(base: Any, old: Any, keys: Iterable[Any], values: list[Any]) -> Any:
    """Return a new object with these items, made with the methods of its built-in base."""
    if base is tuple:
        return tuple.__new__(type(old), values)
    new = base.__new__(type(old))
    if base is list:
        list.extend(new, values)
    elif base is deque:
        deque.__init__(new, values, vars(deque)["maxlen"].__get__(old))
    elif base is not object:
        for key, value in zip(keys, values):
            base.__setitem__(new, key, value)
        if dict.__len__(new) < len(values):
            raise ValueError(EQUAL_KEYS)
    return new


def as_mapping(cls: type) -> Flatten:
    """Return the function that flattens mappings of a class without a built-in base, by their attributes."""
    flatten_attributes = as_object(cls, object)

    def flatten(old: Any) -> tuple[Keys, list[Any]]:
        items = {key: old[key] for key in [*old]}  # first: some change their order when they are read
        keys, attributes = flatten_attributes(old)
        if not any(isinstance(part, dict) and holds(part, items) for part in attributes):
            raise ValueError("its items are not those of a dict among its attributes")
        return keys, attributes

    return flatten


def holds(store: dict[Any, Any], items: dict[Any, Any]) -> bool:
    """Return whether a dict holds these items; a mapping among them may show a dict that is held."""
    return dict.keys(store) == items.keys() and all(
        store[key] is item or (type(store[key]) is dict and isinstance(item, Mapping))
        for key, item in items.items()
    )


# ---- what is tied to the original ---------------------------------------------------------------------

# Where functions, weak references, views and iterators come from: all that may tie an attribute to another
# object, and is not converted itself.
_TIE_MODULES = {"builtins", "functools", "weakref", "_collections"}

_NO_TIES = {dict, list, tuple, deque, *UNCHANGING} - {types.FunctionType}


def _may_tie(part: Any) -> bool:
    return type(part).__module__ in _TIE_MODULES and type(part) not in _NO_TIES


def _refuse_ties(old: Any, attributes: list[Any]) -> None:
    """Raise if an attribute is a function, a view or the like that would stay tied to the original."""
    for attribute in filter(_may_tie, attributes):
        originals = {id(part) for part in (old, *attributes) if not isinstance(part, UNCHANGING)}
        for part in reachable(attribute, _parts_of_tie, 1000):
            if id(part) in originals and part is not attribute:
                raise TypeError(f"it holds {with_article(type(attribute).__name__)} that is tied to it")


def _parts_of_tie(part: Any) -> Iterable[Any]:
    """Return what a tie leads to; of a function, not all that is in its module."""
    if isinstance(part, types.FunctionType):
        return part.__closure__, part.__defaults__, part.__kwdefaults__
    if isinstance(part, (weakref.ref, memoryview)):
        return [part() if isinstance(part, weakref.ref) else part.obj]
    return gc.get_referents(part) if _may_tie(part) or type(part) in (dict, list, tuple) else ()


def reachable(root: Any, parts: Callable[[Any], Iterable[Any]], most: int) -> Iterator[Any]:
    """Yield an object and all that can be reached from it: each once, depth first, and nothing is built.

    Args:
        root: the object to begin with.
        parts: `(object)` to those that it leads to.
        most: how many objects are looked at, and how many parts of each.
    """
    stack, seen = [root], dict[int, Any]()  # what is seen is kept alive, so that no id is used twice
    while stack and len(seen) < most:
        item = stack.pop()
        if id(item) not in seen:
            seen[id(item)] = item
            yield item
            stack += [*islice(parts(item), most)][::-1]
