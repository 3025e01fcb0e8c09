"""Containers of other libraries, found by name, like arrays: nothing is imported for them.

* a TensorDict -> a TensorDict, if the converted values are tensors, too
* other kinds of TensorDict (lazily stacked, persistent, parameters) -> refused
* torch.Size, a Gymnasium space -> unchanged: they only look like containers
"""

from __future__ import annotations

from functools import partial
from typing import Any

from arrayferry._core.messages import with_article
from arrayferry._core.objects import Keys
from arrayferry._core.type_cache import find_class
from arrayferry._core.walk import unchanged
from arrayferry._frameworks._lazy import tensordict, torch
from arrayferry.errors import UnsupportedError


def find(cls: type) -> Any:
    """Return the function that flattens objects of a class, `unchanged`, or None if the class is unknown."""
    bases = {base: flatten for name, flatten in _CLASSES.items() if (base := find_class(name)) is not None}
    return next((flatten for base, flatten in bases.items() if issubclass(cls, base)), None)


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
