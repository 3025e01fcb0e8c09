"""The names of `gymnasium.wrappers.numpy_to_torch`: a wrapper, and two functions."""

from arrayferry.wrappers.array_conversion import *  # noqa: F403
from arrayferry.wrappers.array_conversion import to_numpy as torch_to_numpy
from arrayferry.wrappers.array_conversion import to_torch as numpy_to_torch
from arrayferry.wrappers.pairs import NumpyToTorch

__all__ = ["NumpyToTorch", "Device", "numpy_to_torch", "torch_to_numpy"]  # noqa: F405
