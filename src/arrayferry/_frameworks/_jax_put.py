"""Into JAX at a tenth of the price of its public calls.

`jax.device_put` and `jnp.asarray` spend nearly all of their time in Python, on questions whose answers
are the same in every step: which device, which sharding, which dtype. What they call in the end is one
function of JAX's private part. It is called here with the answers that `device_put` gave the first time.
Where JAX has it no more, and whenever it refuses, it is `device_put` that is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.framework import Array

if TYPE_CHECKING:
    import jax

__all__ = ["array_type", "forget", "put_on"]

# JAX copies no more bytes than this while it is called, and more later, on another thread.
_COPIED_AT_ONCE = 96 << 10

# By the device that was asked for and the default of that moment: the sharding, and the device in a list.
# Who calls jax.extend.backend.clear_backends(), as some tests do, goes on with the devices from before.
_places: dict[Any, tuple[jax.sharding.Sharding, list[jax.Device]]] = {}


def forget() -> None:
    """Ask `device_put` again."""
    _places.clear()


@cache
def put_on(device: Any, check: Callable[[], None]) -> Callable[[Array], jax.Array]:
    """From a private NumPy array to an array on the device, or on the default one, which is complete.

    Args:
        device: the device or sharding, or None.
        check: called before `device_put` is asked; all else asks it first, until `forget` is called.
    """
    import jax

    quick_put, shaped = _private_parts()
    committed, places = device is not None, _places
    config: Any = jax.config

    def put(array: Array) -> jax.Array:
        made: jax.Array | None = None
        try:
            where, devices = places[device, config.jax_default_device]
            made = quick_put(shaped(array.shape, array.dtype), where, [array], devices, committed)
        except Exception:  # a new place; or a transfer_guard, which lets pass what is asked for by name
            pass  # and ask after this, so that it is not the context of an error that is no part of it
        if made is None:
            made = ask(array)
        return made if array.nbytes <= _COPIED_AT_ONCE else made.block_until_ready()

    def ask(array: Array) -> jax.Array:
        check()
        with jax.ensure_compile_time_eval():  # for inside of a trace it would have no values
            made: jax.Array = jax.device_put(array, device)
        one_device = type(made.sharding) is jax.sharding.SingleDeviceSharding
        if quick_put is not None and one_device and made.aval == shaped(array.shape, array.dtype):
            places[device, config.jax_default_device] = made.sharding, [*made.devices()]
        return made

    return put


@cache
def _private_parts() -> tuple[Any, Any]:
    """What puts an array where it is told to, and what describes one; None where JAX has them no more."""
    try:
        from jax._src.lib import xla_client  # type: ignore[attr-defined]
        from jax.core import ShapedArray

        return xla_client.batched_device_put, lru_cache(1024)(ShapedArray)
    except (ImportError, AttributeError):
        return None, None


@cache
def array_type() -> Any:
    """What arrays are of that have values: not tracers, not typed keys. To ask starts JAX's threads."""
    import jax

    with jax.ensure_compile_time_eval():  # else it would be a tracer that is remembered, inside of a trace
        return type(jax.device_put(np.zeros(())))
