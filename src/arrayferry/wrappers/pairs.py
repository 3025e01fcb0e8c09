"""The named pairs for single environments, a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from arrayferry.wrappers._base import Pair
from arrayferry.wrappers.array_conversion import ArrayConversion

if TYPE_CHECKING:
    import jax  # noqa: F401
    import torch  # noqa: F401

__all__ = ["JaxToNumpy", "JaxToTorch", "NumpyToJax", "NumpyToTorch", "TorchToJax", "TorchToNumpy"]


class NumpyToTorch(Pair, ArrayConversion["torch.Tensor"], pair="numpy torch"):
    """A NumPy environment, a torch agent."""


class NumpyToJax(Pair, ArrayConversion["jax.Array"], pair="numpy jax"):
    """A NumPy environment, a JAX agent."""


class JaxToNumpy(Pair, ArrayConversion[NDArray[Any]], pair="jax numpy"):
    """A JAX environment, a NumPy agent."""


class JaxToTorch(Pair, ArrayConversion["torch.Tensor"], pair="jax torch"):
    """A JAX environment, a torch agent."""


class TorchToNumpy(Pair, ArrayConversion[NDArray[Any]], pair="torch numpy"):
    """A torch environment, a NumPy agent."""


class TorchToJax(Pair, ArrayConversion["jax.Array"], pair="torch jax"):
    """A torch environment, a JAX agent."""
