"""The names of `gymnasium.wrappers.jax_to_numpy`: a wrapper, and two functions."""

from __future__ import annotations

from typing import Any

from arrayferry._core.convert import convert
from arrayferry.wrappers.array_conversion import ArrayConversion as ArrayConversion
from arrayferry.wrappers.array_conversion import Device as Device
from arrayferry.wrappers.array_conversion import array_conversion as array_conversion
from arrayferry.wrappers.array_conversion import module_namespace as module_namespace
from arrayferry.wrappers.pairs import JaxToNumpy

__all__ = ["JaxToNumpy", "Device", "jax_to_numpy", "numpy_to_jax"]


def jax_to_numpy(value: Any, device: Device | None = None) -> Any:
    """Convert a value, of JAX arrays or of any others, to NumPy."""
    return convert(value, "numpy", device)


def numpy_to_jax(value: Any, device: Device | None = None) -> Any:
    """Convert a value, of NumPy arrays or of any others, to JAX."""
    return convert(value, "jax", device)
