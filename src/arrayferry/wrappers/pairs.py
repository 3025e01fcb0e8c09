"""The named pairs for single environments, a row each; and the functions of the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from arrayferry.pairs import (
    jax_to_numpy,
    jax_to_torch,
    numpy_to_jax,
    numpy_to_torch,
    torch_to_jax,
    torch_to_numpy,
)
from arrayferry.wrappers._boundary import Pair
from arrayferry.wrappers.array_conversion import ArrayConversion

if TYPE_CHECKING:
    import cupy  # noqa: F401
    import jax  # noqa: F401
    import torch  # noqa: F401

Device = Any  # the name that Gymnasium has beside them

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
    "jax_to_numpy",
    "jax_to_torch",
    "numpy_to_jax",
    "numpy_to_torch",
    "torch_to_jax",
    "torch_to_numpy",
]


class NumpyToTorch(Pair, ArrayConversion["torch.Tensor"], pair="numpy torch"):
    """A NumPy environment, a torch agent."""


class NumpyToJax(Pair, ArrayConversion["jax.Array"], pair="numpy jax"):
    """A NumPy environment, a JAX agent."""


class NumpyToCupy(Pair, ArrayConversion["cupy.ndarray"], pair="numpy cupy"):
    """A NumPy environment, a CuPy agent."""


class JaxToNumpy(Pair, ArrayConversion[NDArray[Any]], pair="jax numpy"):
    """A JAX environment, a NumPy agent."""


class JaxToTorch(Pair, ArrayConversion["torch.Tensor"], pair="jax torch"):
    """A JAX environment, a torch agent."""


class JaxToCupy(Pair, ArrayConversion["cupy.ndarray"], pair="jax cupy"):
    """A JAX environment, a CuPy agent."""


class TorchToNumpy(Pair, ArrayConversion[NDArray[Any]], pair="torch numpy"):
    """A torch environment, a NumPy agent."""


class TorchToJax(Pair, ArrayConversion["jax.Array"], pair="torch jax"):
    """A torch environment, a JAX agent."""


class TorchToCupy(Pair, ArrayConversion["cupy.ndarray"], pair="torch cupy"):
    """A torch environment, a CuPy agent."""


class CupyToNumpy(Pair, ArrayConversion[NDArray[Any]], pair="cupy numpy"):
    """A CuPy environment, a NumPy agent."""


class CupyToTorch(Pair, ArrayConversion["torch.Tensor"], pair="cupy torch"):
    """A CuPy environment, a torch agent."""


class CupyToJax(Pair, ArrayConversion["jax.Array"], pair="cupy jax"):
    """A CuPy environment, a JAX agent."""
