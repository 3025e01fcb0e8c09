"""Classes that are registered as JAX pytrees: their leaves are converted, what JAX calls static is not.

* a dataclass, such as a `flax.struct` or `mjx.Data` -> the same attributes, with JAX's children converted
* any other registered class -> what its own functions make of the converted children

Either way, `jax.tree.structure` is the same before and after.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from arrayferry._core.containers import flatten_of
from arrayferry._core.objects import Flatten, Keys
from arrayferry._core.walk import Attribute
from arrayferry._frameworks._jax_private import is_pytree


def find(cls: type) -> Flatten | None:
    """Return the function that flattens objects of a class as JAX does; None if it is not for JAX to say."""
    tree_util = sys.modules.get("jax.tree_util")  # whoever has registered a class has imported it
    if tree_util is None or cls is type(None) or not is_pytree(tree_util, cls):
        return None  # to JAX, None is a node without children; here it stays what it is
    flatten_all = flatten_of(cls)
    if flatten_all is not None and not dataclasses.is_dataclass(cls):
        return None  # such as an OrderedDict, of which JAX knows nothing but the items

    def flatten(old: Any) -> tuple[Keys, list[Any]]:
        children, treedef = tree_util.tree_flatten_with_path(old, is_leaf=lambda node: node is not old)
        names, values = [_name(path[0]) for path, _ in children], [child for _, child in children]
        if flatten_all is not None:
            keys, parts = flatten_all(old)
            if set(names) <= set(keys):

                def build(new: list[Any]) -> Any:
                    named = dict(zip(names, new))
                    return keys.build([named.get(key, part) for key, part in zip(keys, parts)])

                return Keys(names, build), values
        return Keys(names, lambda new: tree_util.tree_unflatten(treedef, new)), values

    return flatten


def _name(key: Any) -> Any:
    """Return what JAX calls a child: an attribute, a key or an index."""
    if hasattr(key, "name"):
        return Attribute(key.name)
    return getattr(key, "key", getattr(key, "idx", key))
