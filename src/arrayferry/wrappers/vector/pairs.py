"""The named pairs for vector environments, one class each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from arrayferry.wrappers.base import ArrayT, Pair
from arrayferry.wrappers.vector.array_conversion import ArrayConversion

if TYPE_CHECKING:
    import jax  # noqa: F401
    import torch  # noqa: F401
    from gymnasium.vector import VectorEnv
    from typing_extensions import Unpack

    from arrayferry.wrappers.base import VectorOptions

__all__ = ["JaxToNumpy", "JaxToTorch", "NumpyToJax", "NumpyToTorch", "TorchToJax", "TorchToNumpy"]


class _Pair(Pair, ArrayConversion[ArrayT]):
    if TYPE_CHECKING:

        def __init__(
            self, env: VectorEnv[Any, Any, Any], device: Any = None, **options: Unpack[VectorOptions]
        ) -> None: ...


class NumpyToTorch(_Pair["torch.Tensor"], pair="numpy torch"):
    """A NumPy vector environment, for a torch agent."""


class NumpyToJax(_Pair["jax.Array"], pair="numpy jax"):
    """A NumPy vector environment, for a JAX agent."""


class JaxToNumpy(_Pair[NDArray[Any]], pair="jax numpy"):
    """A JAX vector environment, for a NumPy agent."""


class JaxToTorch(_Pair["torch.Tensor"], pair="jax torch"):
    """A JAX vector environment, for a torch agent."""


class TorchToNumpy(_Pair[NDArray[Any]], pair="torch numpy"):
    """A torch vector environment, for a NumPy agent."""


class TorchToJax(_Pair["jax.Array"], pair="torch jax"):
    """A torch vector environment, for a JAX agent."""
