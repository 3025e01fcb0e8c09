"""The names of `gymnasium.wrappers.vector.jax_to_numpy`."""

from arrayferry.wrappers.vector.pairs import JaxToNumpy

__all__ = ["JaxToNumpy"]
