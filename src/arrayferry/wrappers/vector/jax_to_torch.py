"""The names of `gymnasium.wrappers.vector.jax_to_torch`."""

from __future__ import annotations

from arrayferry.wrappers.array_conversion import Device as Device
from arrayferry.wrappers.vector.array_conversion import ArrayConversion as ArrayConversion
from arrayferry.wrappers.vector.pairs import JaxToTorch

__all__ = ["JaxToTorch"]
