"""Containers of other libraries: nothing is imported for them.

* a TensorDict -> a TensorDict, if the converted values are tensors, too
* other kinds of TensorDict (lazily stacked, persistent, parameters) -> refused
* torch.Size, a Gymnasium space -> unchanged: they only look like containers
* a dataclass that is a JAX pytree, such as a `flax.struct` or `mjx.Data` -> the same attributes, with JAX's
  children converted, and what JAX calls static left alone
* any other class registered as a pytree -> what its own functions make of the converted children

`jax.tree.structure` of a pytree is the same before and after.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from typing import Any

from arrayferry._core.containers import flatten_of
from arrayferry._core.messages import with_article
from arrayferry._core.objects import Flatten, Keys
from arrayferry._core.type_cache import find_class
from arrayferry._core.walk import Attribute, unchanged
from arrayferry._frameworks._jax_private import is_pytree
from arrayferry._frameworks._lazy import tensordict, torch
from arrayferry.errors import UnsupportedError


def find(cls: type) -> Any:
    """Return the function that flattens objects of a class, `unchanged`, or None if the class is unknown."""
    bases = {base: flatten for name, flatten in _CLASSES.items() if (base := find_class(name)) is not None}
    return next((flatten for base, flatten in bases.items() if issubclass(cls, base)), _find_pytree(cls))


def _find_pytree(cls: type) -> Flatten | None:
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


def _flatten_tensordict(old: Any) -> tuple[Keys, list[Any]]:
    """Return its keys and entries: tensors, TensorDicts, and `NonTensorData` for anything else."""
    if type(old) is not tensordict.TensorDict:
        kind = type(old).__name__
        hint = f"convert its .to_tensordict(), or register_container({kind}, values=..., build=...)"
        raise UnsupportedError(f"{with_article(kind)} is more than its entries", hint)
    keys = [*old.keys()]
    return Keys(keys, partial(_build_tensordict, old, keys)), [old.get(key) for key in keys]


def _build_tensordict(old: Any, keys: list[str], new: list[Any]) -> Any:
    """Return a TensorDict with the same batch size, names and lock; a device becomes that of its tensors."""
    for key, value in zip(keys, new):
        if not (isinstance(value, torch.Tensor) or tensordict.is_tensor_collection(value)):
            what = f"a TensorDict holds tensors, and {key!r} became {with_article(type(value).__name__)}"
            raise UnsupportedError(what, "convert td.to_dict() instead")
    device = old.device and next((value.device for value in new if value.device is not None), old.device)
    names = old.names if any(name is not None for name in old.names) else None
    built = tensordict.TensorDict(dict(zip(keys, new)), old.batch_size, device=device, names=names)
    return built.lock_() if old.is_locked else built


_CLASSES = {
    "tensordict:TensorDictBase": _flatten_tensordict,
    "torch:Size": unchanged,
    "gymnasium.spaces:Space": unchanged,
    "gym.spaces:Space": unchanged,
}
