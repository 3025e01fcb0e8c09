"""The supported frameworks: one file for each, all with the same parts in the same order.

A file names its framework but does not import it; the framework is imported when it is used.
"""

from __future__ import annotations

from arrayferry._core import containers, registry
from arrayferry._frameworks import _containers
from arrayferry._frameworks.array_api_strict import ArrayAPIStrict
from arrayferry._frameworks.cupy import CuPy
from arrayferry._frameworks.dask import Dask
from arrayferry._frameworks.jax import Jax
from arrayferry._frameworks.mlx import MLX
from arrayferry._frameworks.numpy import NumPy
from arrayferry._frameworks.paddle import Paddle
from arrayferry._frameworks.sparse import Sparse
from arrayferry._frameworks.tensorflow import TensorFlow
from arrayferry._frameworks.torch import Torch
from arrayferry._frameworks.warp import Warp

# In the order in which they are asked whether an array is theirs.
for _framework in NumPy, Torch, Jax, CuPy, Dask, Sparse, ArrayAPIStrict, MLX, Warp, TensorFlow, Paddle:
    registry.register_framework(_framework())

containers.libraries.append(_containers.find)
