"""The frameworks' modules, each imported when it is first used: a file can name one without importing it."""
# mypy: implicit-reexport

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class LazyModule:
    """Stands for a module, and imports it when an attribute is first used."""

    __slots__ = ("__dict__", "_name")

    def __init__(self, name: str) -> None:
        """Set the module's full name."""
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "__wrapped__":  # which `inspect` and doctest ask everything for
            raise AttributeError(attribute)
        module = import_module(self._name)
        self.__dict__ = vars(module)  # from now on, attributes are found as fast as in the module itself
        return getattr(module, attribute)  # which may have a `__getattr__` of its own


if TYPE_CHECKING:
    import array_api_strict as xp
    import cupy
    import jax
    import jax.core
    import jax.experimental
    import jax.numpy as jnp
    import mlx.core as mx
    import paddle
    import tensordict
    import tensorflow as tf
    import torch
    import warp as wp
else:
    xp = LazyModule("array_api_strict")
    cupy = LazyModule("cupy")
    jax = LazyModule("jax")
    jnp = LazyModule("jax.numpy")
    mx = LazyModule("mlx.core")
    paddle = LazyModule("paddle")
    tensordict = LazyModule("tensordict")
    tf = LazyModule("tensorflow")
    torch = LazyModule("torch")
    wp = LazyModule("warp")
