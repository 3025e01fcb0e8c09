"""What we use of JAX that is not public, in one place: each with what is done in versions that lack it.

`jax.device_put` spends nearly all of its time in Python, working out what is the same in every step: the
device, the sharding, the dtype. In the end it calls one private function of JAX. We call it directly, with
what `device_put` chose for the first array of a shape, in a tenth of the time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from arrayferry._core.framework import Array
from arrayferry._core.interruptions import is_from_handler
from arrayferry._frameworks._jax_shardings import is_on_cpu
from arrayferry._frameworks._lazy import jax

# Up to this size JAX copies during the call; larger arrays it copies later, on another thread.
_COPIED_AT_ONCE = 96 << 10

# From a function that `faster` returned, a shape, a dtype and the default device to JAX's description of the
# result, its sharding, the index of each device's piece (None for all of it), the devices, and whether it is
# committed to them. A program that calls jax.extend.backend.clear_backends() keeps the old devices.
plans: dict[Any, tuple[Any, jax.sharding.Sharding, list[Any] | None, list[jax.Device], bool]] = {}

# Keeps the table from growing without bound in a program whose arrays have a new shape in every step.
_MANY_PLANS = 1024


def faster(
    put: Callable[[Array], jax.Array], pieces: Mapping[jax.Device, Any] | None = None
) -> Callable[[Array], jax.Array]:
    """Return a function that does what another does by `device_put`; on the CPU, its result is complete.

    Args:
        put: puts a private NumPy array on one device or on many. It is called for the first array of each
            shape and dtype, whenever the private function fails, and where there is none.
        pieces: the index of each device's piece, if the sharding of the result does not tell.
    """
    config: Any = jax.config
    private_put = batched_device_put()

    def faster_put(array: Array) -> jax.Array:
        key = faster_put, array.shape, array.dtype, config.jax_default_device
        result: jax.Array | None = None
        if (plan := plans.get(key)) is not None:
            aval, sharding, indices, devices, committed = plan
            parts = [array] if indices is None else [array[index] for index in indices]
            try:
                result = private_put(aval, sharding, parts, devices, committed)
            except Exception as error:  # such as that of a transfer_guard, which allows only explicit ones
                if is_from_handler(error):
                    raise
                # Otherwise, call `put` below, so that its own errors do not have this one as their context.
        if result is None:
            result = put_first(array, key)
        if array.nbytes <= _COPIED_AT_ONCE or not is_on_cpu(result.sharding):  # a GPU copies in its stream
            return result
        return result.block_until_ready()

    def put_first(array: Array, key: Any) -> jax.Array:
        with jax.ensure_compile_time_eval():  # inside a trace the result would be a tracer without values
            result = put(array)
        if private_put is not None and result.dtype == array.dtype:
            if len(plans) >= _MANY_PLANS:
                plans.clear()
            index_of: Any = pieces or result.sharding.addressable_devices_indices_map(array.shape)
            indices = None if len(index_of) == 1 else [*index_of.values()]
            plans[key] = result.aval, result.sharding, indices, [*index_of], result.committed
        return result

    return faster_put


@cache
def batched_device_put() -> Any:
    """Return JAX's function that puts the pieces of an array on devices; None if it is not used."""
    with suppress(ImportError, AttributeError):
        from jax._src.lib import xla_client  # type: ignore[attr-defined]

        # In older versions, a process that ends while the device is busy would crash.
        return xla_client.batched_device_put if jax.__version_info__ >= (0, 8) else None
    return None


def has_started() -> bool:
    """Return whether JAX has started its threads; if JAX does not tell, whether it is imported."""
    is_initialized = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    return "jax" in sys.modules if is_initialized is None else bool(is_initialized())


def is_pytree(tree_util: Any, cls: type) -> bool:
    """Return whether a class is registered with `jax.tree_util`."""
    if hasattr(tree_util, "is_tree_node"):
        return bool(tree_util.is_tree_node(cls))
    # Older versions of JAX can tell this only for an object, not for a class.
    return cls in getattr(sys.modules.get("jax._src.tree_util"), "_registry", ())


def mapped_axes() -> Any:
    """Return the names of the axes of `pmap` and `shard_map` that JAX is tracing under."""
    names: Any = jax.sharding.get_abstract_mesh().manual_axes
    if jax.__version_info__ < (0, 8):  # where `pmap` has no mesh
        names = names or getattr(jax, "core").unsafe_get_axis_names_DO_NOT_USE()  # noqa: B009
    return names
