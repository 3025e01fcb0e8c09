"""The names of `gymnasium.wrappers.vector.jax_to_torch`."""

from arrayferry.wrappers.vector.pairs import JaxToTorch

__all__ = ["JaxToTorch"]
