"""The names of `gymnasium.wrappers.jax_to_torch`: a wrapper, and two functions."""

from arrayferry.wrappers.array_conversion import *  # noqa: F403
from arrayferry.wrappers.array_conversion import to_jax as torch_to_jax
from arrayferry.wrappers.array_conversion import to_torch as jax_to_torch
from arrayferry.wrappers.pairs import JaxToTorch

__all__ = ["JaxToTorch", "Device", "jax_to_torch", "torch_to_jax"]  # noqa: F405
