"""Into JAX by a compiled identity: all arrays in one call, at a fraction of the price of one each.

`jax.device_put` and `jnp.asarray` spend most of their time in Python. A compiled function that returns
its arguments does not, but it has to be compiled for every set of shapes. So a set of shapes is put in
the plain way at first, and compiled when that has cost about as much as compiling does: shapes that are
new in every step never are. A compiled call minds settings that a transfer does not mind; there, and
whenever something else comes out than `device_put` gives, it is `device_put` that is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.framework import Array
from arrayferry._core.ownership import LARGE

if TYPE_CHECKING:
    import jax

__all__ = ["array_type", "put_all"]

# So many arrays put one by one (about 50 us each) have taken as long as compiling takes (about 15 ms).
_WORTH_COMPILING = 256

# The most arguments of one call: compiling takes longer than in proportion to them.
_AT_ONCE = 64

# The most sets of shapes that are remembered.
_SETS = 1024


@cache
def put_all(device: jax.Device | None) -> Callable[[list[Array]], list[jax.Array]]:
    """From private NumPy arrays to arrays on the device, or on the default one, which are complete."""
    import jax

    identity = _identity(device)
    seen: dict[tuple[Any, ...], int] = {}
    shape_and_dtype, committed = attrgetter("shape", "dtype"), device is not None

    def put(arrays: list[Array]) -> list[jax.Array]:
        shapes = tuple(map(shape_and_dtype, arrays))
        if seen.get(shapes, 0) >= _WORTH_COMPILING or remember(shapes, arrays):
            try:
                made = identity(*arrays)
            except Exception:  # a NaN under debug_nans, a transfer_guard: neither is about this
                return jax.device_put(arrays, device)  # type: ignore[no-any-return]
            last: Any = made[-1]
            # It is of another kind inside of a trace or of disable_jit; committed inside of a mesh, to
            # all of it; and not ready where the device is busy, while a transfer is complete.
            if type(last) is array_type() and last.committed is committed and last.is_ready():
                return list(made)
        if len(arrays) > _AT_ONCE:
            return put(arrays[:_AT_ONCE]) + put(arrays[_AT_ONCE:])
        return jax.device_put(arrays, device)  # type: ignore[no-any-return]

    def remember(shapes: tuple[Any, ...], arrays: list[Array]) -> bool:
        """That these have come once more; not if they are too many, or so large that a copy counts."""
        if len(arrays) <= _AT_ONCE and max(array.nbytes for array in arrays) < LARGE:
            if len(seen) >= _SETS:
                seen.clear()
                identity.clear_cache()
            seen[shapes] = seen.get(shapes, 0) + len(arrays)
        return False

    return put


@cache
def array_type() -> Any:
    """What arrays are of that have values: not tracers, not typed keys. To ask starts JAX's threads."""
    import jax

    return type(jax.device_put(np.zeros(())))


def _identity(device: jax.Device | None) -> Any:
    import jax

    def identity(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        return arrays

    if device is None:
        return jax.jit(identity)
    return jax.jit(identity, out_shardings=jax.sharding.SingleDeviceSharding(device))
