"""Mappings without a built-in base, which may keep their items anywhere.

If dicts among its attributes hold all the items, a mapping is rebuilt by rebuilding its attributes. Otherwise
its constructor is given the new items, and the result must be like the original in everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from arrayferry._core.objects import Attributes, Functions, as_object

__all__ = ["Items", "as_mapping"]

_UNSET = object()


class Items(list[Any]):
    """The keys of a container, and the values that it had for them."""

    def __init__(self, keys: list[Any], values: list[Any]) -> None:
        super().__init__(keys)
        self.values = values


def as_mapping(cls: type) -> Functions:
    """Return the functions that flatten and unflatten mappings of this class."""
    attributes, (open_whole, build_whole) = Attributes(cls), as_object(cls, object)

    def state(old: Any) -> dict[Any, Any]:
        own, slots = attributes.read(old)
        return {**own, **slots}

    def flatten(old: Any) -> Any:
        keys = [*old]  # read once: some mappings change their order when they are read
        values = [old[key] for key in keys]
        if len(dict.fromkeys(keys)) < len(keys):
            raise ValueError("it has a duplicate key")
        stores = [part for part in state(old).values() if isinstance(part, dict)]
        if stores and all(any(_stores(one, *item) for one in stores) for item in zip(keys, values)):
            return open_whole(old)
        return Items(keys, values), values

    def unflatten(old: Any, keys: Any, values: list[Any]) -> Any:
        if isinstance(keys, Items):
            new: Any = type(old)(dict(zip(keys, values)))
            pairs = {(id(before), id(after)) for before, after in zip(keys.values, values)}
            if not all(new[key] is value for key, value in zip(keys, values)):
                raise ValueError("its values differ from those it was given")
            if type(new) is not type(old) or not _are_alike(state(old), state(new), pairs):
                raise ValueError("its attributes would be lost")
        else:
            new = build_whole(old, keys, values)
        if not _are_alike([*old], [*new]):
            raise ValueError("its keys would change")
        return new

    return flatten, unflatten


def _stores(store: dict[Any, Any], key: Any, value: Any) -> bool:
    found = dict.get(store, key, _UNSET)
    if found is value or type(found) is not dict or not isinstance(value, Mapping):
        return found is value
    # Some mappings show the dicts in them as mappings, which they create anew each time.
    return len(found) == len(value) and all(_stores(found, inner, value[inner]) for inner in value)


def _are_alike(old: Any, new: Any, pairs: Set[tuple[int, int]] = frozenset()) -> bool:
    """Return whether two parts of a state are alike, except for these pairs of ids."""
    if old is new or (id(old), id(new)) in pairs:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        return _are_alike([*old], [*new]) and _are_alike([*old.values()], [*new.values()], pairs)
    if isinstance(old, (list, tuple)):
        return len(old) == len(new) and all(_are_alike(*both, pairs) for both in zip(old, new))
    return bool(old == new)
