"""The names of `gymnasium.wrappers.numpy_to_torch`: a wrapper, and two functions."""

from __future__ import annotations

from typing import Any

from arrayferry._core.convert import convert
from arrayferry.wrappers.array_conversion import ArrayConversion as ArrayConversion
from arrayferry.wrappers.array_conversion import Device as Device
from arrayferry.wrappers.array_conversion import array_conversion as array_conversion
from arrayferry.wrappers.array_conversion import module_namespace as module_namespace
from arrayferry.wrappers.pairs import NumpyToTorch

__all__ = ["NumpyToTorch", "Device", "numpy_to_torch", "torch_to_numpy"]


def numpy_to_torch(value: Any, device: Device | None = None) -> Any:
    """Convert a value, of NumPy arrays or of any others, to torch."""
    return convert(value, "torch", device)


def torch_to_numpy(value: Any, device: Device | None = None) -> Any:
    """Convert a value, of torch arrays or of any others, to NumPy."""
    return convert(value, "numpy", device)
