"""JAX: arrays on the CPU, GPU or TPU, on one device or sharded over many.

* a NumPy array -> `jax.device_put` of private memory, which JAX takes over if it is aligned;
  `_jax_put` does the same faster
* int64 and float64 without x64 -> int32, checked, and float32
* numbers -> strongly typed, so that they add no entries to the jit cache
* a sharded array -> gathered, if this process holds all shards
* a batch of a vector environment -> its rows split over a sharding, together with those of other processes
* typed PRNG keys -> unchanged; tracers, refs and deleted arrays -> refused
* in a process that was forked after JAX had started -> refused: JAX's threads exist only in the parent; and
  JAX itself is told to refuse what comes from the host, so that environments there raise instead of hanging

JAX may read its input after its functions return, even with `copy=True`: it is only ever given memory that
nobody else can write to. See https://github.com/jax-ml/jax/issues/37830.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD, castable
from arrayferry._core.framework import WIDE, Array, Batches, Devices, FastPaths, Framework
from arrayferry._core.speedups import speedups
from arrayferry._core.type_cache import clear_type_caches
from arrayferry._frameworks._jax_put import array_type, forget, put_on
from arrayferry._frameworks._jax_rows import Rows, has_mesh
from arrayferry._frameworks._jax_shardings import as_data, from_data
from arrayferry.errors import DeviceError, SharingError, UnsupportedError

if TYPE_CHECKING:
    import jax

__all__ = ["FRAMEWORK", "has_started", "refuse_if_forked"]

# The alignment at which XLA uses memory of the CPU in place instead of copying it.
_ALIGNMENT = 64

# Whether this process was forked from one in which JAX had started.
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = _forked or has_started()
    if _forked:
        forget()
        clear_type_caches()  # such as that JAX's arrays can be read
        _refuse_to_compute()


def _refuse_to_compute() -> None:
    """Make JAX raise where it would hang, even in an environment's own computations.

    Nearly all of them begin with something from the host: a seed, a constant, an action. A computation that
    uses only the parent's arrays is refused by the wrapper around it, and by `arrayferry.envs`. A user who
    knows better can reset the guard.
    """
    with suppress(Exception):  # a fork must not fail because of this
        sys.modules["jax"].config.update("jax_transfer_guard_host_to_device", "disallow_explicit")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def has_started() -> bool:
    """Return whether JAX has started its threads; if JAX does not tell, whether it is imported."""
    is_initialized = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    return "jax" in sys.modules if is_initialized is None else bool(is_initialized())


def refuse_if_forked() -> None:
    """Raise in a process that was forked after JAX had started."""
    if _forked:
        raise DeviceError(
            "this process was forked after JAX had started: JAX would wait for its threads forever",
            'start it differently, for example with AsyncVectorEnv(..., context="forkserver") or "spawn"; '
            "or wrap the vector environment instead of those in its workers",
        )


def to_numpy(array: jax.Array, share: bool) -> Array | None:
    """Return a read-only view of an array on one CPU device, or a fresh array of any other."""
    import jax
    import jax.numpy as jnp

    _refuse_if_no_values(array)
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return None  # a typed PRNG key
    if not array.is_fully_addressable:
        raise UnsupportedError(
            "this process holds only some shards of the array",
            "gather it with jax.experimental.multihost_utils.process_allgather, "
            "or convert its addressable_shards",
        )
    if share and not (_is_on_one_cpu(array) and array.dtype.name not in _JAX_ONLY):
        raise SharingError(
            f"NumPy cannot see the memory of {array.sharding}", "pass copy=None, which gathers it"
        )
    return _values(array)


def _values(array: jax.Array) -> Array:
    # An empty array from jit may have shards of a wrong shape, which JAX fails to join.
    return np.asarray(array) if array.size else np.empty(array.shape, array.dtype)


def _is_on_one_cpu(array: jax.Array) -> bool:
    devices = array.devices()
    return len(devices) == 1 and _is_cpu(next(iter(devices)))


def _is_cpu(device: Any) -> bool:
    return bool(getattr(device, "platform", "") == "cpu")


def from_numpy(array: Array, device: Any, share: bool) -> jax.Array:
    """Return an array that takes the memory over if it is aligned, and otherwise a copy."""
    return _share(array, device) if share else from_private(device)(array)


def _share(array: Array, device: Any) -> jax.Array:
    address = array.__array_interface__["data"][0]
    if obstacle := _obstacle_to_sharing(array, address, device):
        raise SharingError(f"JAX cannot share this memory: {obstacle}", "pass copy=None")
    shared = from_private(device)(array)
    if array.size and shared.unsafe_buffer_pointer() != address:
        raise SharingError("JAX copied this memory although it could have been shared", "pass copy=None")
    return shared


def _obstacle_to_sharing(array: Array, address: int, device: Any) -> str:
    if device is not None and not _is_cpu(device):
        return f"it is not on {device}"
    if not array.flags.c_contiguous:
        return "it is not contiguous"
    if not array.dtype.isnative:
        return "it is not in native byte order"
    # In NumPy a bool may be any non-zero byte; XLA relies on 0 and 1.
    if array.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        return "its bools are not 0 and 1"
    if address % _ALIGNMENT and array.size:
        return f"its address is not a multiple of {_ALIGNMENT} bytes"
    return ""


def copy_within(array: jax.Array, device: Any, dtype: str | None, share: bool) -> jax.Array | None:
    """Return a complete copy, so that the original may be donated; with `share`, the array itself."""
    import jax
    import jax.numpy as jnp

    _refuse_if_no_values(array)
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return None
    if isinstance(device, Rows) and not device.holds(array) and not _is_on(array, device):
        device = device.first
    moves = device is not None and not _is_on(array, device)
    casts = dtype is not None and dtype != array.dtype.name
    if share:
        if moves or casts:
            what = f"{array.dtype} on {array.sharding} is not {dtype or array.dtype} on {device}"
            raise SharingError(what, "pass copy=None, which converts it")
        return array
    with jax.debug_nans(False), jax.debug_infs(False):  # a copy may contain them: it computes nothing
        new = _cast(array, dtype or array.dtype.name) if casts or not array.size else array
        new = _moved(new, device) if moves else new
        new = jnp.array(new, copy=True) if new is array else new
        return new.block_until_ready()


def _cast(array: jax.Array, dtype: str) -> jax.Array:
    """Return a new array in the same place; on the CPU cast by NumPy, as XLA takes subnormals for zero."""
    import jax

    if not (array.is_fully_addressable and on_host(array)):
        return array.astype(dtype)
    values = _values(array)
    with np.errstate(all="ignore"):
        new = castable(values, jax.numpy.dtype(dtype)).astype(dtype)
    return from_private(array.sharding if getattr(array, "committed", True) else None)(new)


def _moved(array: jax.Array, device: Any) -> jax.Array:
    import jax
    import jax.numpy as jnp

    if isinstance(device, Rows):
        return device.join(jnp.array(array, copy=True))  # copied, because a piece may be the whole array
    moved: jax.Array = jax.device_put(array if array.size else _values(array), device)
    return moved


def _is_on(array: jax.Array, device: Any) -> bool:
    if isinstance(device, Rows):
        return array.sharding == device.sharding and array.shape[:1] == (device.total,)
    return bool(array.devices() == {device} if hasattr(device, "platform") else array.sharding == device)


def from_dlpack(array: Any) -> jax.Array:
    """Return an array on the same device memory."""
    import jax.numpy as jnp

    return jnp.from_dlpack(array)


@cache
def reads(device_type: int) -> bool:
    """Return whether JAX has devices of a type that DLPack knows by this number."""
    import jax

    try:
        return device_type == 1 or bool(jax.devices({2: "cuda", 10: "rocm"}[device_type]))
    except (KeyError, RuntimeError):  # JAX itself knows no other type, or has no such devices here
        return False


def find_device(spec: Any) -> Any:
    """Return the `jax.Device` for a name such as `"cpu:1"` or `"gpu"`; a device or sharding as it is.

    What `device_name` returned for a sharding becomes a sharding again.
    """
    import jax

    refuse_if_forked()
    if spec is None or isinstance(spec, (jax.Device, jax.sharding.Sharding, Rows)):
        return spec
    if isinstance(spec, dict):
        return from_data(spec, find_device)
    platform, _, index = str(spec).partition(":")
    is_name = platform.isidentifier() and (index or "0").isdecimal()
    try:
        # JAX takes an empty name for its default platform.
        return (jax.devices(platform) if is_name else [])[int(index or 0)]
    except (RuntimeError, ValueError, IndexError) as error:
        hint = f"the devices here are: {', '.join(available_devices())}"
        raise DeviceError(f"JAX has no device {str(spec)!r} here", hint) from error


def device_name(device: Any) -> Any:
    """Return a name such as `"cpu:1"`; for a sharding, plain data."""
    import jax

    if isinstance(device, (jax.sharding.Sharding, Rows)):
        return as_data(device, device_name)
    return f"{device.platform}:{jax.devices(device.platform).index(device)}"


def available_devices() -> tuple[str, ...]:
    """Return the names of the devices of the default backend and of the CPU."""
    import jax

    devices = dict.fromkeys([*jax.devices(), *jax.devices("cpu")])
    return tuple(device_name(device) for device in devices)


def split_rows(spec: Any, count: int) -> tuple[Any, Any]:
    """Return the device for batches of `count` rows, and the device for everything else."""
    device = find_device(spec)
    sharding = device.sharding if isinstance(device, Rows) else device
    if not has_mesh(sharding):
        return device, device
    rows = Rows(sharding, count)
    return rows, rows.first


def rows_here(array: Any, device: Any) -> Any:
    """Return this process's rows of an array that has those of all processes."""
    return device.read(array) if isinstance(device, Rows) and type(array) is array_type() else array


def on_host(array: Any) -> bool:
    """Return False for an array on a GPU or TPU; True for one without values, which `to_numpy` refuses."""
    import jax

    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer) or array.is_deleted():
        return True
    return all(_is_cpu(device) for device in array.devices())


_JAX_ONLY = frozenset({"int2", "uint2", "int4", "uint4", "float4_e2m1fn"})
_ONLY_WITH_X64 = frozenset({"int64", "uint64", "float64", "complex128"})
_NARROW = {int: "int32", float: "float32", complex: "complex64"}


def dtypes(device: Any) -> frozenset[str]:
    """Return JAX's dtypes; the 64-bit ones only with x64, which can be switched on and off."""
    return _dtypes(_x64())


@cache
def _dtypes(x64: bool) -> frozenset[str]:
    jnp = sys.modules["jax"].numpy
    small = {name for name in ML_DTYPES | _JAX_ONLY if hasattr(jnp, name)}  # newer versions have more
    return STANDARD | small if x64 else (STANDARD | small) - _ONLY_WITH_X64


def default_dtypes(device: Any) -> dict[type, str]:
    """Return the dtypes that `jnp.asarray` gives to Python's numbers."""
    return WIDE if _x64() else _NARROW


def _x64() -> bool:
    # Called for every leaf: an import statement would take longer than the rest.
    return bool(sys.modules["jax"].config.jax_enable_x64)


def from_private(device: Any) -> Callable[[Array], jax.Array]:
    """Return a faster `jax.device_put`."""
    return put_on(device, refuse_if_forked)


def to_private(cls: type) -> Callable[[jax.Array], Array | None] | None:
    """Return a function in C that copies what NumPy sees through the buffer protocol, or None."""
    if speedups is None or _forked or cls is not array_type():
        return None
    copy: Callable[[jax.Array], Array | None] = speedups.copy_buffer
    return copy


def item(array: jax.Array) -> Any:
    """Return the array as a number or a list, through NumPy, which is faster than JAX's own `tolist`."""
    return None if _forked else np.asarray(array).tolist()


def _refuse_if_no_values(array: Any) -> None:
    import jax

    refuse_if_forked()
    if isinstance(array, jax.core.Tracer):
        inside = "to step an environment inside of jit, use arrayferry.in_jit"
        hint = f"convert outside of jit, grad and vmap; {inside}"
        raise UnsupportedError("a JAX tracer has no values yet", hint)
    if not isinstance(array, jax.Array):
        raise UnsupportedError("a jax.Ref is a reference, not a value", "convert what it holds: ref[...]")
    if array.is_deleted():
        raise UnsupportedError("this JAX array was deleted or donated", "convert it earlier, or keep a copy")


FRAMEWORK = Framework(
    name="jax",
    modules=("jax.numpy", "jax"),
    arrays=("jax:Array", "jax.core:Tracer", "jax:Ref"),
    to_numpy=to_numpy,
    from_numpy=from_numpy,
    dtypes=dtypes,
    default_dtypes=default_dtypes,
    devices=Devices(
        find=find_device,
        name=device_name,
        available=available_devices,
        on_host=on_host,
        reads=reads,
    ),
    copy_within=copy_within,
    from_dlpack=from_dlpack,
    immutable=True,
    distributions=("jax",),
    wider='enable 64-bit types: jax.config.update("jax_enable_x64", True)',
    _fast=FastPaths(
        from_private=from_private,
        # Bools are not among them: XLA relies on 0 and 1, and NumPy's may be any byte.
        plain_dtypes=lambda device: STANDARD - _ONLY_WITH_X64 - {"bool"},
        to_private=to_private,
        item=lambda cls: item if not _forked and cls is array_type() else None,
        alignment=_ALIGNMENT,
    ),
    _batches=Batches(split=split_rows, rows_here=rows_here),
)
