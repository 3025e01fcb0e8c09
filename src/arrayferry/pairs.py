"""The pairs that users know by name, with the signatures that Gymnasium gave them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from arrayferry._core.convert import convert

__all__ = [
    "array_conversion",
    "jax_to_numpy",
    "jax_to_torch",
    "numpy_to_jax",
    "numpy_to_torch",
    "torch_to_jax",
    "torch_to_numpy",
]


def array_conversion(value: Any, xp: str | ModuleType, device: Any = None) -> Any:
    """Convert a value to the framework `xp`: `convert`, by the name that Gymnasium gave it.

    >>> import numpy as np
    >>> array_conversion({"reward": 1.5, "mission": "go left"}, np)
    {'reward': array(1.5), 'mission': 'go left'}
    """
    return convert(value, xp, device)


def jax_to_numpy(value: Any, device: Any = None) -> Any:
    """Convert a value, of JAX arrays or of any others, to NumPy."""
    return convert(value, "numpy", device)


def torch_to_numpy(value: Any, device: Any = None) -> Any:
    """Convert a value, of torch tensors or of any others, to NumPy."""
    return convert(value, "numpy", device)


def numpy_to_jax(value: Any, device: Any = None) -> Any:
    """Convert a value, of NumPy arrays or of any others, to JAX."""
    return convert(value, "jax", device)


def torch_to_jax(value: Any, device: Any = None) -> Any:
    """Convert a value, of torch tensors or of any others, to JAX."""
    return convert(value, "jax", device)


def numpy_to_torch(value: Any, device: Any = None) -> Any:
    """Convert a value, of NumPy arrays or of any others, to torch."""
    return convert(value, "torch", device)


def jax_to_torch(value: Any, device: Any = None) -> Any:
    """Convert a value, of JAX arrays or of any others, to torch."""
    return convert(value, "torch", device)
