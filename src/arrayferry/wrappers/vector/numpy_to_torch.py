"""The names of `gymnasium.wrappers.vector.numpy_to_torch`."""

from arrayferry.wrappers.vector.pairs import NumpyToTorch

__all__ = ["NumpyToTorch"]
