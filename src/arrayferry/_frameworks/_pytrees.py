"""Classes that are registered as JAX pytrees: their leaves are converted, what JAX calls static is not.

* a dataclass, such as a `flax.struct` or `mjx.Data` -> the same attributes, with JAX's children converted
* any other registered class -> what its own functions make of the converted children

Either way, `jax.tree.structure` is the same before and after.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from arrayferry._core.objects import Functions
from arrayferry._core.walk import Attribute
from arrayferry._frameworks._jax_private import is_pytree

__all__ = ["find_pytree"]


def find_pytree(cls: type, own: Functions | None) -> Functions | None:
    """Return the functions that flatten and unflatten objects of a class as JAX does; None if it is unknown.

    Args:
        cls: the class.
        own: the functions that flatten and unflatten all attributes of a dataclass.
    """
    tree_util = sys.modules.get("jax.tree_util")  # whoever has registered a class has imported it
    if tree_util is None or cls is type(None) or not is_pytree(tree_util, cls):
        return None  # to JAX, None is a node without children; here it stays what it is

    def flatten(old: Any) -> tuple[_Children, list[Any]]:
        found, treedef = tree_util.tree_flatten_with_path(old, is_leaf=lambda node: node is not old)
        names = [_name(path[0]) for path, _ in found]
        children = [child for _, child in found]
        if own is not None and dataclasses.is_dataclass(old):
            keys, values = own[0](old)
            places = {key: index for index, key in enumerate(keys)}
            if all(places.get(name) is not None for name in names):
                return _Children(names, rest=(keys, values, [places[name] for name in names])), children
        return _Children(names, treedef), children

    def unflatten(old: Any, names: _Children, new: list[Any]) -> Any:
        if names.rest is None or own is None:
            return tree_util.tree_unflatten(names.treedef, new)
        keys, values, places = names.rest
        values = [*values]
        for place, value in zip(places, new):
            values[place] = value
        return own[1](old, keys, values)

    return flatten, unflatten


class _Children(list[Any]):
    """The names of a node's children.

    Attributes:
        treedef: what JAX builds the node from.
        rest: for a dataclass, the keys and values of all its attributes, and the children's places in them.
    """

    def __init__(self, names: list[Any], treedef: Any = None, rest: Any = None) -> None:
        super().__init__(names)
        self.treedef, self.rest = treedef, rest


def _name(key: Any) -> Any:
    """Return what JAX calls a child: an attribute, a key or an index."""
    if hasattr(key, "name"):
        return Attribute(key.name)
    return getattr(key, "key", getattr(key, "idx", key))
