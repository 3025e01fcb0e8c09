"""The names of `gymnasium.wrappers.jax_to_numpy`: a wrapper, and two functions."""

from arrayferry.wrappers.array_conversion import *  # noqa: F403
from arrayferry.wrappers.array_conversion import to_jax as numpy_to_jax
from arrayferry.wrappers.array_conversion import to_numpy as jax_to_numpy
from arrayferry.wrappers.pairs import JaxToNumpy

__all__ = ["JaxToNumpy", "Device", "jax_to_numpy", "numpy_to_jax"]  # noqa: F405
