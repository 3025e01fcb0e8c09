"""The named pairs for single environments, one class each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from arrayferry.wrappers.array_conversion import ArrayConversion
from arrayferry.wrappers.base import ArrayT, Pair

if TYPE_CHECKING:
    import gymnasium as gym
    import jax  # noqa: F401
    import torch  # noqa: F401
    from typing_extensions import Unpack

    from arrayferry.wrappers.base import SingleOptions

__all__ = ["JaxToNumpy", "JaxToTorch", "NumpyToJax", "NumpyToTorch", "TorchToJax", "TorchToNumpy"]


class _Pair(Pair, ArrayConversion[ArrayT]):
    if TYPE_CHECKING:

        def __init__(
            self, env: gym.Env[Any, Any], device: Any = None, **options: Unpack[SingleOptions]
        ) -> None: ...


class NumpyToTorch(_Pair["torch.Tensor"], pair="numpy torch"):
    """A NumPy environment, for a torch agent."""


class NumpyToJax(_Pair["jax.Array"], pair="numpy jax"):
    """A NumPy environment, for a JAX agent."""


class JaxToNumpy(_Pair[NDArray[Any]], pair="jax numpy"):
    """A JAX environment, for a NumPy agent."""


class JaxToTorch(_Pair["torch.Tensor"], pair="jax torch"):
    """A JAX environment, for a torch agent."""


class TorchToNumpy(_Pair[NDArray[Any]], pair="torch numpy"):
    """A torch environment, for a NumPy agent."""


class TorchToJax(_Pair["jax.Array"], pair="torch jax"):
    """A torch environment, for a JAX agent."""
