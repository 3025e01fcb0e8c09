"""Objects: the items of a built-in base, a `__dict__`, and slots.

They are read and written with built-in methods, never with a class's own: an overridden `__setitem__` may
write where the original can see it, and a constructor knows nothing about what was set later.
"""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import BuiltinMethodType, FunctionType, GeneratorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, TypeAlias

from arrayferry._core.messages import with_article
from arrayferry._core.walk import Attribute

__all__ = ["BASES", "EQUAL_KEYS", "UNCHANGING", "Attributes", "Functions", "Keys", "as_object", "as_struct"]

# The functions that flatten and unflatten a container: see `Container`.
Functions: TypeAlias = "tuple[Callable[[Any], Any], Callable[[Any, Any, list[Any]], Any]]"

EQUAL_KEYS = "two of its keys are equal, so that one entry would be lost"

# ---- attributes ---------------------------------------------------------------------------------------

_OF_EXCEPTIONS = [vars(BaseException)[name] for name in ("args", "__traceback__", "__context__", "__cause__")]


class Keys(list[Any]):
    """The keys of an object's items, then the names of its attributes.

    Attributes:
        n_items: how many of them are items.
        names: the names in its `__dict__`, as they are there.
        slots: the descriptors of the other attributes.
    """

    def __init__(self, items: Iterable[Any], names: Iterable[str], slots: Sequence[Any]) -> None:
        super().__init__(items)
        self.n_items, self.names, self.slots = len(self), [*names], slots
        self += map(Attribute, self.names)
        self += [Attribute(slot.__name__) for slot in slots]


class Attributes:
    """The attributes that objects of a class carry: those in their `__dict__`, and their slots.

    All is kept by name: a reference to the class, as a slot has one, would keep it alive for ever.
    """

    def __init__(self, cls: type) -> None:
        places: dict[Any, tuple[int, str]] = {}
        for depth, base in enumerate(cls.__mro__):
            for name, member in vars(base).items():
                if isinstance(member, MemberDescriptorType) and issubclass(cls, member.__objclass__):
                    places.setdefault(member, (depth, name))
        self._places = [*places.values()]
        self._hidden = _OF_EXCEPTIONS if issubclass(cls, BaseException) else []
        self._has_dict = cls.__dictoffset__ != 0
        fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        defaults = {field.name: getattr(cls, field.name) for field in fields if hasattr(cls, field.name)}
        # Fields that nobody has set have their values in the class.
        self._defaults = [name for name, one in defaults.items() if not hasattr(type(one), "__get__")]

    def read(self, old: Any) -> tuple[dict[str, Any], dict[Any, Any]]:
        """Return the attributes of an object by name, and its slots by descriptor."""
        if not (self._has_dict or self._places or self._hidden):
            return {}, {}
        own = object.__getattribute__(old, "__dict__") if self._has_dict else {}
        if own is old:  # a dict whose items are its attributes
            own = {}
        elif type(own) is not dict:
            raise TypeError(f"its __dict__ is {with_article(type(own).__name__)}")
        cls, slots = type(old), {}
        for slot in (*self._hidden, *(vars(cls.__mro__[depth])[name] for depth, name in self._places)):
            try:
                slots[slot] = slot.__get__(old)
            except AttributeError:  # it is not set
                continue
        defaults = {name: getattr(cls, name) for name in self._defaults}
        own = {**own, **defaults, **own}  # own values win and keep their order
        _refuse_ties(old, [*own.values(), *slots.values()])
        return own, slots

    def write(self, old: Any, new: Any, keys: Keys, values: list[Any]) -> None:
        """Give a new object its attributes, whose values come after the items."""
        if self._has_dict and object.__getattribute__(old, "__dict__") is old:
            object.__setattr__(new, "__dict__", new)
        elif keys.names:
            object.__getattribute__(new, "__dict__").update(zip(keys.names, values[keys.n_items :]))
        for slot, value in zip(keys.slots, values[len(values) - len(keys.slots) :]):
            slot.__set__(new, value)


def _refuse_ties(old: Any, values: list[Any]) -> None:
    """Raise if a value is a function or a weak reference that would stay tied to the original."""
    for value in values:
        if type(value) in _TIES:
            for tied in _tied_to(value):
                found = tied() if type(tied) is weakref.ref else tied
                if not isinstance(found, UNCHANGING) and any(found is one for one in (old, *values)):
                    raise TypeError(f"it holds {with_article(type(value).__name__)} that is tied to it")


UNCHANGING = (bool, int, float, complex, str, bytes, type(None), type, ModuleType, FunctionType)

_VIEWS = {}.keys(), {}.values(), {}.items()  # type: ignore[var-annotated]
_ITERATORS = [*map(iter, (*_VIEWS, [], (), deque()))]  # type: ignore[arg-type, var-annotated]

# The objects that a function, a weak reference, a view or an iterator may be tied to.
_TIES: dict[type, Callable[[Any], Iterable[Any]]] = {
    MethodType: lambda method: (method.__self__,),
    BuiltinMethodType: lambda method: (method.__self__,),
    FunctionType: lambda function: (
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).values(),
        *gc.get_referents(*(function.__closure__ or ())),  # some cells are empty
    ),
    partial: lambda partial: (partial.func, *partial.args, *partial.keywords.values()),
    weakref.ref: lambda reference: (reference,),
    memoryview: lambda view: (view.obj,),
    **dict.fromkeys(
        [enumerate, zip, map, GeneratorType, type(reversed([])), *map(type, _VIEWS), *map(type, _ITERATORS)],
        gc.get_referents,
    ),
}


def _tied_to(value: Any) -> list[Any]:
    """Return the objects that a value is tied to, also through others of its kind."""
    found, todo, seen = [], [value], set[int]()
    while todo and len(seen) < 1000:
        one = todo.pop()
        get = gc.get_referents if type(one) is tuple else _TIES.get(type(one))
        if get is not None and id(one) not in seen:
            seen.add(id(one))
            todo += (ties := [*get(one)])
            found += ties
    return found


# ---- objects: the items of a built-in base, and attributes --------------------------------------------


def as_object(cls: type, base: Any) -> Functions:
    """Return the functions that flatten and unflatten objects of a class with this base, one of `BASES`."""
    shares_fields = issubclass(base, dict) and dataclasses.is_dataclass(cls)
    attributes, make, items = Attributes(cls), BASES[base], _reader(cls, base)

    def flatten(old: Any) -> tuple[Keys, list[Any]]:
        (keys, values), (own, slots) = items(old), attributes.read(old)
        return Keys(keys, own, list(slots)), [*values, *own.values(), *slots.values()]

    def unflatten(old: Any, keys: Keys, values: list[Any]) -> Any:
        new = make(old, keys[: keys.n_items], values[: keys.n_items])
        attributes.write(old, new, keys, values)
        if shares_fields:
            _share_fields(old, new)
        return new

    return flatten, unflatten


def _reader(cls: type, base: Any) -> Callable[[Any], tuple[Iterable[Any], Iterable[Any]]]:
    """Return a function that reads an object's keys and values with the methods of its built-in base."""
    if base in (object, BaseException):
        return lambda old: ((), ())
    if issubclass(base, dict):
        return _read_ordered if base is OrderedDict else _read_dict
    fields = getattr(cls, "_fields", ())  # of a namedtuple
    names = [*map(Attribute, fields)] if base is tuple and isinstance(fields, tuple) else []

    def items(old: Any) -> tuple[Iterable[Any], Iterable[Any]]:
        values = [*base.__iter__(old)]
        return (names if len(names) == len(values) else range(len(values))), values

    return items


def _read_dict(old: Any) -> tuple[list[Any], list[Any]]:
    items = [*dict.items(old)]  # at one moment: others may change it
    return [key for key, _ in items], [value for _, value in items]


def _read_ordered(old: Any) -> tuple[list[Any], list[Any]]:
    keys = [*OrderedDict.keys(old)]  # `dict.items` has another order
    if len(keys) < dict.__len__(old):
        raise ValueError(EQUAL_KEYS)
    return keys, [dict.__getitem__(old, key) for key in keys]


def _make_dict(base: Any) -> Callable[[Any, list[Any], list[Any]], Any]:
    def make(old: Any, keys: list[Any], values: list[Any]) -> Any:
        new = base.__new__(type(old))
        for key, value in zip(keys, values):
            base.__setitem__(new, key, value)
        if dict.__len__(new) < len(keys):
            raise ValueError(EQUAL_KEYS)
        return new

    return make


def _make_list(old: Any, keys: list[Any], values: list[Any]) -> Any:
    new = list.__new__(type(old))
    list.extend(new, values)
    return new


def _make_deque(old: Any, keys: list[Any], values: list[Any]) -> Any:
    new = deque.__new__(type(old))
    deque.__init__(new, values, vars(deque)["maxlen"].__get__(old))
    return new


# By built-in base: `(original, keys, values)` to a new object with these items.
BASES: dict[type, Callable[[Any, list[Any], list[Any]], Any]] = {
    OrderedDict: _make_dict(OrderedDict),
    dict: _make_dict(dict),
    list: _make_list,
    tuple: lambda old, keys, values: tuple.__new__(type(old), values),
    deque: _make_deque,
    BaseException: lambda old, keys, values: BaseException.__new__(type(old)),
    object: lambda old, keys, values: object.__new__(type(old)),
}


def _share_fields(old: Any, new: Any) -> None:
    """Set the fields of a dataclass that is also a dict to the items of the same names."""
    for field in dataclasses.fields(old):
        if field.name in new:
            object.__setattr__(new, field.name, dict.__getitem__(new, field.name))


def as_struct() -> Functions:
    """Return the functions that flatten and unflatten a struct sequence, such as `time.struct_time`."""

    def flatten(old: Any) -> tuple[Keys, list[Any]]:
        _, (items, hidden) = old.__reduce__()  # some fields are not items
        return Keys(range(len(items)), hidden, ()), [*items, *hidden.values()]

    def unflatten(old: Any, keys: Keys, new: list[Any]) -> Any:
        return type(old)(new[: keys.n_items], dict(zip(keys.names, new[keys.n_items :])))

    return flatten, unflatten
