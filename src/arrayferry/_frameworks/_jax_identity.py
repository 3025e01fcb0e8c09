"""Into JAX by a compiled identity: all arrays in one call, at a fraction of the price of one each.

`jax.device_put` and `jnp.asarray` spend most of their time in Python. A compiled function that returns
its arguments does not, but it has to be compiled for every set of shapes. So a set of shapes is put in
the plain way at first, and compiled when that has cost about as much as compiling does: shapes that are
new in every step never are. Each argument has its price too, so several arrays of one dtype go as one,
and are cut up by the compiled function.

A compiled call minds settings that a transfer does not mind; there, and whenever something else comes
out than `device_put` gives, it is `device_put` that is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.framework import Array

if TYPE_CHECKING:
    import jax

__all__ = ["array_type", "complete", "forget", "put_all"]

# So many arrays put one by one (about 50 us each) have taken as long as compiling takes (some 20 ms).
_WORTH_COMPILING = 256

# The most arrays of one call: compiling takes longer than in proportion to them.
_AT_ONCE = 64

# The most sets of shapes that are remembered, and that are compiled (about 1.5 MB each).
_SEEN, _COMPILED = 1024, 64

# XLA copies an argument of no more bytes while it is called, and a larger one later, on another thread.
_COPIED_AT_ONCE = 96 << 10

# To copy arrays into one and cut it up again takes about as long as three arguments.
_WORTH_PACKING = 3

Shapes = list[tuple[tuple[int, ...], np.dtype[Any]]]
Put = Callable[..., "Sequence[jax.Array]"]

# By device, and by shapes and dtypes.
_programs: dict[Any, dict[Any, Put]] = {}


def forget() -> None:
    """Make no more use of what is compiled."""
    for programs in _programs.values():
        programs.clear()


@cache
def put_all(device: jax.Device | None, check: Callable[[], None]) -> Put:
    """From private NumPy arrays to arrays on the device, or on the default one, which are complete.

    Args:
        device: the device.
        check: called before JAX is asked; but for what is compiled, until `forget` is called.
    """
    import jax

    programs = _programs.setdefault(device, {})
    seen: dict[Any, int] = {}
    shape_and_dtype, committed = attrgetter("shape", "dtype"), device is not None

    def put(*arrays: Array) -> Sequence[jax.Array]:
        if len(arrays) > _AT_ONCE:
            slices = (arrays[start : start + _AT_ONCE] for start in range(0, len(arrays), _AT_ONCE))
            return [array for some in slices for array in put(*some)]
        # One array has a key of its own, for that takes a tenth less time.
        key = shape_and_dtype(*arrays) if len(arrays) == 1 else tuple(map(shape_and_dtype, arrays))
        program = programs.get(key)
        if program is None:
            remember(key, arrays)
        else:
            try:
                made = program(*arrays)
                last: Any = made[-1]
                # It is of another kind inside of a trace or of disable_jit; committed inside of a mesh, to
                # all of it; and not ready where the device is busy, while a transfer is complete.
                if type(last) is array_type() and last.committed is committed and last.is_ready():
                    return made
            except Exception:  # a NaN under debug_nans, a transfer_guard: neither is about this
                pass
        check()
        landed: list[jax.Array] = jax.device_put(arrays, device)
        return [*map(complete, landed)]

    def remember(key: Any, arrays: tuple[Array, ...]) -> None:
        if max(array.nbytes for array in arrays) > _COPIED_AT_ONCE:
            return
        if len(seen) >= _SEEN:
            seen.clear()
        seen[key] = seen.get(key, 0) + len(arrays)
        if seen[key] >= _WORTH_COMPILING:
            check()
            while len(programs) >= _COMPILED:
                oldest = next(iter(programs))
                programs.pop(oldest, None)
                seen.pop(oldest, None)
            programs[key] = _program([*map(shape_and_dtype, arrays)], device)

    return put


def complete(array: jax.Array) -> jax.Array:
    """The array, when it has its values; inside of a trace it has none."""
    waits = array.nbytes > _COPIED_AT_ONCE and type(array) is array_type()
    return array.block_until_ready() if waits else array


@cache
def array_type() -> Any:
    """What arrays are of that have values: not tracers, not typed keys. To ask starts JAX's threads."""
    import jax

    with jax.ensure_compile_time_eval():  # else it would be a tracer that is remembered, inside of a trace
        return type(jax.device_put(np.zeros(())))


def _program(shapes: Shapes, device: jax.Device | None) -> Put:
    """What puts arrays of these shapes, in their order."""
    import jax

    alone, groups = _grouped(shapes)
    order = [*alone, *(index for indices in groups for index in indices)]
    places = [order.index(index) for index in range(len(order))]

    def cut(*given: jax.Array) -> tuple[jax.Array, ...]:
        pieces = [*map(jax.numpy.asarray, given[: len(alone)])]  # under disable_jit, they are NumPy's
        for indices, packed in zip(groups, given[len(alone) :]):
            start = 0
            for shape, _ in (shapes[index] for index in indices):
                pieces.append(jax.lax.slice(packed, (start,), (start + prod(shape),)).reshape(shape))
                start += prod(shape)
        return tuple(pieces[place] for place in places)

    there: Any = {} if device is None else {"out_shardings": jax.sharding.SingleDeviceSharding(device)}
    compiled: Put = jax.jit(cut, **there)
    if not groups:
        return compiled
    if not alone and len(groups) == 1:  # the commonest, without detours
        return lambda *arrays: compiled(np.frombuffer(b"".join(arrays), shapes[0][1]))
    packers = [(itemgetter(*indices), shapes[indices[0]][1]) for indices in groups]

    def pack_and_cut(*arrays: Array) -> Sequence[jax.Array]:
        packed = [np.frombuffer(b"".join(pick(arrays)), dtype) for pick, dtype in packers]
        return compiled(*[arrays[index] for index in alone], *packed)

    return pack_and_cut


def _grouped(shapes: Shapes) -> tuple[list[int], list[list[int]]]:
    """The indices of arrays that go alone, and of those that go as one."""
    bytes_of = [prod(shape) * dtype.itemsize for shape, dtype in shapes]
    same: dict[Any, list[int]] = {}
    for index, (_, dtype) in enumerate(shapes):
        # NumPy's own dtypes, for others are no buffers; and not of no bytes, for that is no buffer either.
        fits = dtype.isbuiltin == 1 and bytes_of[index]
        same.setdefault((dtype, None if fits else index), []).append(index)
    groups = [
        indices
        for indices in same.values()
        if len(indices) >= _WORTH_PACKING and sum(bytes_of[index] for index in indices) <= _COPIED_AT_ONCE
    ]
    packed = {index for indices in groups for index in indices}
    return [index for index in range(len(shapes)) if index not in packed], groups
