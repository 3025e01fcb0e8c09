"""The named pairs for vector environments, a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from arrayferry.wrappers._boundary import Pair
from arrayferry.wrappers.vector.array_conversion import ArrayConversion

if TYPE_CHECKING:
    import cupy  # noqa: F401
    import jax  # noqa: F401
    import torch  # noqa: F401

__all__ = [
    "CupyToJax",
    "CupyToNumpy",
    "CupyToTorch",
    "JaxToCupy",
    "JaxToNumpy",
    "JaxToTorch",
    "NumpyToCupy",
    "NumpyToJax",
    "NumpyToTorch",
    "TorchToCupy",
    "TorchToJax",
    "TorchToNumpy",
]


class NumpyToTorch(Pair, ArrayConversion["torch.Tensor"], pair="numpy torch"):
    """A NumPy vector environment, a torch agent."""


class NumpyToJax(Pair, ArrayConversion["jax.Array"], pair="numpy jax"):
    """A NumPy vector environment, a JAX agent."""


class NumpyToCupy(Pair, ArrayConversion["cupy.ndarray"], pair="numpy cupy"):
    """A NumPy vector environment, a CuPy agent."""


class JaxToNumpy(Pair, ArrayConversion[NDArray[Any]], pair="jax numpy"):
    """A JAX vector environment, a NumPy agent."""


class JaxToTorch(Pair, ArrayConversion["torch.Tensor"], pair="jax torch"):
    """A JAX vector environment, a torch agent."""


class JaxToCupy(Pair, ArrayConversion["cupy.ndarray"], pair="jax cupy"):
    """A JAX vector environment, a CuPy agent."""


class TorchToNumpy(Pair, ArrayConversion[NDArray[Any]], pair="torch numpy"):
    """A torch vector environment, a NumPy agent."""


class TorchToJax(Pair, ArrayConversion["jax.Array"], pair="torch jax"):
    """A torch vector environment, a JAX agent."""


class TorchToCupy(Pair, ArrayConversion["cupy.ndarray"], pair="torch cupy"):
    """A torch vector environment, a CuPy agent."""


class CupyToNumpy(Pair, ArrayConversion[NDArray[Any]], pair="cupy numpy"):
    """A CuPy vector environment, a NumPy agent."""


class CupyToTorch(Pair, ArrayConversion["torch.Tensor"], pair="cupy torch"):
    """A CuPy vector environment, a torch agent."""


class CupyToJax(Pair, ArrayConversion["jax.Array"], pair="cupy jax"):
    """A CuPy vector environment, a JAX agent."""
