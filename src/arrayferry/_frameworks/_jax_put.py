"""Put NumPy arrays on a JAX device in a tenth of the time that JAX's public functions take.

`jax.device_put` and `jnp.asarray` spend nearly all of their time in Python, working out what is the same
in every step: the device, the sharding, the dtype. In the end they call one private function of JAX. We
call it directly, with the device and sharding that `device_put` chose the first time; for many devices, with
the piece that each of them gets. `device_put` does the work whenever that function fails, and in versions of
JAX that do not have it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.framework import Array
from arrayferry._core.interruptions import is_from_handler
from arrayferry._frameworks._jax_rows import Rows, has_mesh
from arrayferry.errors import DeviceError

if TYPE_CHECKING:
    import jax

__all__ = ["array_type", "forget", "put_on"]

# Up to this size JAX copies during the call; larger arrays it copies later, on another thread.
_COPIED_AT_ONCE = 96 << 10

# From the requested device and the current default device to what `device_put` chose for them: the
# sharding, and the device in a list. A program that calls jax.extend.backend.clear_backends(), as some
# tests do, keeps the old devices.
_places: dict[Any, tuple[jax.sharding.Sharding, list[jax.Device]]] = {}

# For many devices, from the function that puts arrays there, a shape and a dtype to JAX's description of the
# result, its sharding, the index of each device's piece, and the devices.
_splits: dict[Any, tuple[Any, jax.sharding.Sharding, list[Any], list[jax.Device]]] = {}

# Keeps the table from growing without bound in a program whose arrays have a new shape in every step.
_MANY_SPLITS = 1024


def forget() -> None:
    """Forget what `device_put` chose, so that it is called again."""
    _places.clear()
    _splits.clear()


@cache
def put_on(device: Any, check: Callable[[], None]) -> Callable[[Array], jax.Array]:
    """Return a function that puts a private NumPy array on a device; its result is complete.

    Args:
        device: the device, sharding or `Rows`; None for the default device.
        check: called before each call of `device_put`, to raise where that would hang.
    """
    import jax

    if isinstance(device, Rows):
        return _put_rows(device, check)
    if has_mesh(device):
        return _put_split(device, check)
    fast_put, shaped = _private_parts()
    committed, places = device is not None, _places
    config: Any = jax.config

    def put(array: Array) -> jax.Array:
        result: jax.Array | None = None
        try:
            sharding, devices = places[device, config.jax_default_device]
            result = fast_put(shaped(array.shape, array.dtype), sharding, [array], devices, committed)
        except Exception as error:  # a new device; or a transfer_guard, which allows only explicit transfers
            if is_from_handler(error):
                raise
            # Otherwise, call device_put below, so that its own errors do not have this one as their context.
        if result is None:
            result = put_slowly(array)
        return result if array.nbytes <= _COPIED_AT_ONCE else result.block_until_ready()

    def put_slowly(array: Array) -> jax.Array:
        check()
        with jax.ensure_compile_time_eval():  # inside a trace the result would be a tracer without values
            result: jax.Array = jax.device_put(array, device)
        is_on_one_device = type(result.sharding) is jax.sharding.SingleDeviceSharding
        if fast_put is not None and is_on_one_device and result.aval == shaped(array.shape, array.dtype):
            places[device, config.jax_default_device] = result.sharding, [*result.devices()]
        return result

    return put


def _put_rows(rows: Rows, check: Callable[[], None]) -> Callable[[Array], jax.Array]:
    """Return a function that splits arrays that have these rows, and puts all others on one device."""
    split = _put_pieces(rows.sharding, check, rows.join, lambda shape: rows.indices)
    put = put_on(rows.first, check)
    return lambda array: split(array) if rows.holds(array) else put(array)


def _put_split(sharding: jax.sharding.Sharding, check: Callable[[], None]) -> Callable[[Array], jax.Array]:
    import jax

    if not sharding.is_fully_addressable:  # device_put would wait for the other processes
        raise DeviceError(
            "the sharding has devices of other processes, and only a vector environment has rows for them",
            "wrap a gymnasium.vector.VectorEnv; or pass a sharding over jax.local_devices()",
        )
    join = partial(jax.device_put, device=sharding)
    return _put_pieces(sharding, check, join, sharding.addressable_devices_indices_map)


def _put_pieces(
    sharding: jax.sharding.Sharding,
    check: Callable[[], None],
    join: Callable[[Array], jax.Array],
    indices: Callable[[Any], Any],
) -> Callable[[Array], jax.Array]:
    """Return a function that puts the pieces of an array on many devices.

    Args:
        sharding: the sharding of the result.
        check: as for `put_on`.
        join: does the same with JAX's public functions.
        indices: `(shape)` to the index of each device's piece.
    """
    import jax

    fast_put, _ = _private_parts()

    def put(array: Array) -> jax.Array:
        result: jax.Array | None = None
        try:
            aval, there, pieces, devices = _splits[put, array.shape, array.dtype]
            result = fast_put(aval, there, [array[piece] for piece in pieces], devices, True)
        except Exception as error:  # a new shape; or a transfer_guard
            if is_from_handler(error):
                raise
        if result is None:
            result = put_slowly(array)
        return result if array.nbytes <= _COPIED_AT_ONCE else result.block_until_ready()

    def put_slowly(array: Array) -> jax.Array:
        check()
        with jax.ensure_compile_time_eval():
            result = join(array)
        if fast_put is not None and result.dtype == array.dtype and result.sharding == sharding:
            if len(_splits) >= _MANY_SPLITS:
                _splits.clear()
            found = indices(array.shape)
            split = result.aval, result.sharding, [*found.values()], [*found]
            _splits[put, array.shape, array.dtype] = split
        return result

    return put


@cache
def _private_parts() -> tuple[Any, Any]:
    """Return JAX's function that puts an array on a device, and its type for describing one; or two Nones."""
    import jax

    if jax.__version_info__ < (0, 8):  # a process that ends while the device is busy would crash
        return None, None
    try:
        from jax._src.lib import xla_client  # type: ignore[attr-defined]
        from jax.core import ShapedArray

        return xla_client.batched_device_put, lru_cache(1024)(ShapedArray)
    except (ImportError, AttributeError):
        return None, None


@cache
def array_type() -> Any:
    """Return the type of arrays that have values: not tracers, not typed keys. Starts JAX's threads."""
    import jax

    with jax.ensure_compile_time_eval():  # inside a trace the type of a tracer would be cached
        return type(jax.device_put(np.zeros(())))
