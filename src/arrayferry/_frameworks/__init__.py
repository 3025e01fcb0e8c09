"""Who can be converted: one file for each framework, all with the same parts in the same order.

The files name their framework but do not import it; that happens when it is used.
"""

from __future__ import annotations

from arrayferry._core.registry import register_fallback, register_framework
from arrayferry._frameworks import (
    _generic,
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
)

# The table: in this order they are asked whether an array is theirs.
for _framework in (numpy, torch, jax, cupy, dask, sparse, array_api_strict, mlx, tensorflow, paddle):
    register_framework(_framework.FRAMEWORK)

register_fallback(target=_generic.make, source=_generic.source)
