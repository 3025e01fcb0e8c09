"""The names of `gymnasium.wrappers.jax_to_torch`: a wrapper, and two functions."""

from __future__ import annotations

from typing import Any

from arrayferry._core.convert import convert
from arrayferry.wrappers.array_conversion import ArrayConversion as ArrayConversion
from arrayferry.wrappers.array_conversion import Device as Device
from arrayferry.wrappers.array_conversion import array_conversion as array_conversion
from arrayferry.wrappers.array_conversion import module_namespace as module_namespace
from arrayferry.wrappers.pairs import JaxToTorch

__all__ = ["JaxToTorch", "Device", "jax_to_torch", "torch_to_jax"]


def jax_to_torch(value: Any, device: Device | None = None) -> Any:
    """Convert a value, of JAX arrays or of any others, to torch."""
    return convert(value, "torch", device)


def torch_to_jax(value: Any, device: Device | None = None) -> Any:
    """Convert a value, of torch arrays or of any others, to JAX."""
    return convert(value, "jax", device)
