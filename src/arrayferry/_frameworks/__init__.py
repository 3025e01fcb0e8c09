"""The supported frameworks: one file for each, all with the same parts in the same order.

A file names its framework but does not import it; the framework is imported when it is used.
"""

from __future__ import annotations

from arrayferry._core import containers
from arrayferry._core.registry import register_fallback, register_framework
from arrayferry._frameworks import (
    _containers,
    _generic,
    _pytrees,
    array_api_strict,
    cupy,
    dask,
    jax,
    mlx,
    numpy,
    paddle,
    sparse,
    tensorflow,
    torch,
    warp,
)

# In the order in which they are asked whether an array is theirs.
for _framework in (
    numpy.NumPy,
    torch.Torch,
    jax.Jax,
    cupy.CuPy,
    dask.Dask,
    sparse.Sparse,
    array_api_strict.ArrayAPIStrict,
    mlx.MLX,
    warp.Warp,
    tensorflow.TensorFlow,
    paddle.Paddle,
):
    register_framework(_framework())

register_fallback(_generic.framework_of_module, _generic.framework_of_type)

containers.libraries += [_containers.find, _pytrees.find]
