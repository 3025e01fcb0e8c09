"""JAX: arrays on the CPU, GPU or TPU, on one device or sharded over many.

* a NumPy array -> `jax.device_put` of private memory, which JAX takes over if it is aligned
* int64 and float64 without x64 -> int32, checked, and float32
* numbers -> strongly typed, so that they add no entries to the jit cache
* a sharded array -> gathered, if this process holds all shards
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
from functools import cache, partial
from typing import Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, STANDARD, castable
from arrayferry._core.framework import NARROW, WIDE, Array, Deferred, Framework, Source, Target
from arrayferry._core.holds import hold
from arrayferry._core.speedups import speedups
from arrayferry._core.type_cache import clear_type_caches
from arrayferry._frameworks import _jax_private, _jax_shardings
from arrayferry._frameworks._jax_private import faster as faster  # these four for the rooms above
from arrayferry._frameworks._jax_private import has_started as has_started
from arrayferry._frameworks._jax_private import mapped_axes as mapped_axes
from arrayferry._frameworks._jax_shardings import has_mesh as has_mesh
from arrayferry._frameworks._lazy import jax as jax  # these two, too
from arrayferry._frameworks._lazy import jnp as jnp
from arrayferry.errors import DeviceError, SharingError, UnsupportedError

# The alignment at which XLA uses memory of the CPU in place instead of copying it.
_ALIGNMENT = 64

_JAX_ONLY = frozenset({"int2", "uint2", "int4", "uint4", "float4_e2m1fn"})
_ONLY_WITH_X64 = frozenset({"int64", "uint64", "float64", "complex128"})

# Whether this process was forked from one in which JAX had started.
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = _forked or _jax_private.has_started()
    if _forked:
        _jax_private.plans.clear()
        clear_type_caches()  # such as that JAX's arrays can be read
        # Make JAX raise where it would hang, even in an environment's own computations: nearly all of them
        # begin with something from the host, such as a seed. One that uses only the parent's arrays is
        # refused by the wrapper around it, and by `arrayferry.envs`. A user may reset the guard.
        with suppress(Exception):  # a fork must not fail because of this
            sys.modules["jax"].config.update("jax_transfer_guard_host_to_device", "disallow_explicit")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def refuse_if_forked() -> None:
    """Raise in a process that was forked after JAX had started."""
    if _forked:
        what = "this process was forked after JAX had started: JAX would wait for its threads forever"
        start = 'start it differently, for example with AsyncVectorEnv(..., context="forkserver") or "spawn"'
        raise DeviceError(what, f"{start}; or wrap the vector environment instead of those in its workers")


class Jax(Framework):
    """JAX's arrays, devices and shardings."""

    name, modules = "jax", ("jax.numpy", "jax")
    arrays = ("jax:Array", "jax.core:Tracer", "jax:Ref")
    immutable = True
    widening_hint = 'enable 64-bit types: jax.config.update("jax_enable_x64", True)'

    def source(self, cls: type) -> Source:
        """Return how arrays are read: those with values through the buffer protocol, in C."""
        source = Source(read=read, view=view, on_host=on_host, fetch=fetch)
        if _forked or cls is not array_type():
            return source
        return source._replace(
            on_host=_array_on_host,
            item=lambda array: np.asarray(array).tolist(),  # faster than JAX's own `tolist`
            fast_copy=None if speedups is None else speedups.copy_buffer,
        )

    def target(self, device: Any) -> Target:
        """Return how arrays are made on a device or with a sharding: by a faster `jax.device_put`."""
        take = put_on(device)
        config: Any = jax.config
        on_cpu = device is None or getattr(device, "platform", "") == "cpu"
        return Target(
            take=take,
            dtypes=lambda: _dtypes(config.jax_enable_x64),
            defaults=lambda: WIDE if config.jax_enable_x64 else NARROW,
            # Without bools: XLA relies on 0 and 1, and NumPy's may be any byte.
            as_is=STANDARD - _ONLY_WITH_X64 - {"bool"},
            share=partial(share, take) if on_cpu else None,
            needs=("not-contiguous", "odd-bools"),
            alignment=_ALIGNMENT,
            within=partial(copy_within, device),
            holds=partial(is_on, device),
            alias=jax.numpy.from_dlpack,
            can_alias=can_alias,
        )

    def find_device(self, spec: Any) -> Any:
        """Return the `jax.Device` for a name such as `"cpu:1"` or `"gpu"`; a device or sharding as it is.

        What `device_name` returned for a sharding becomes a sharding again.
        """
        refuse_if_forked()
        if spec is None or isinstance(spec, (jax.Device, jax.sharding.Sharding)):
            return spec
        if isinstance(spec, dict):
            return _jax_shardings.from_data(spec, self.find_device)
        platform, _, index = str(spec).partition(":")
        is_name = platform.isidentifier() and (index or "0").isdecimal()
        try:
            # JAX takes an empty name for its default platform.
            return (jax.devices(platform) if is_name else [])[int(index or 0)]
        except (RuntimeError, ValueError, IndexError) as error:
            raise self.no_device(spec) from error

    def device_name(self, device: Any) -> Any:
        """Return a name such as `"cpu:1"`; for a sharding, plain data."""
        if isinstance(device, jax.sharding.Sharding):
            return _jax_shardings.as_data(device, self.device_name)
        return f"{device.platform}:{jax.devices(device.platform).index(device)}"

    def devices(self) -> list[jax.Device]:
        """Return the devices of the default backend and of the CPU."""
        return [*dict.fromkeys([*jax.devices(), *jax.devices("cpu")])]


# ---- reading ----------------------------------------------------------------------------------------------


@cache
def array_type() -> Any:
    """Return the type of arrays that have values: not tracers, not typed keys. Starts JAX's threads."""
    with jax.ensure_compile_time_eval():  # inside a trace the type of a tracer would be cached
        return type(jax.device_put(np.zeros(())))


def read(array: jax.Array) -> Array | None:
    """Return a read-only view of an array on one CPU device, or a fresh array of any other."""
    if not _has_values(array):
        return None
    _refuse_if_elsewhere(array)
    return _values(array)


def fetch(array: jax.Array, memory: Array) -> Any:
    """Copy an array on a GPU or TPU to memory of the host; JAX sends it there at once."""
    _has_values(array)
    _refuse_if_elsewhere(array)
    array.copy_to_host_async()
    return Deferred(memory, complete_fetches, (memory, array))


def complete_fetches(tasks: list[tuple[Array, jax.Array]]) -> None:
    """Copy what JAX has sent; it waits for the first, while the others are on their way."""
    for memory, array in tasks:
        np.copyto(memory, _values(array))


def view(array: jax.Array) -> Array | None:
    """Return a read-only view of an array on one CPU device."""
    values, is_on_one_cpu = read(array), on_host(array) and len(array.devices()) == 1
    if values is None or (is_on_one_cpu and values.dtype.name not in _JAX_ONLY):
        return values
    raise SharingError(f"NumPy cannot see the memory of {array.sharding}", "pass copy=None, which gathers it")


def _values(array: jax.Array) -> Array:
    # An empty array from jit may have shards of a wrong shape, which JAX fails to join.
    return np.asarray(array) if array.size else np.empty(array.shape, array.dtype)


def on_host(array: Any) -> bool:
    """Return False for an array on a GPU or TPU; True for one without values, which `read` refuses."""
    is_array = isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer)
    return not is_array or _array_on_host(array)


def _array_on_host(array: jax.Array) -> bool:
    return array.is_deleted() or _jax_shardings.is_on_cpu(array.sharding)


# ---- making and copying -----------------------------------------------------------------------------------


@cache
def put_on(device: Any) -> Callable[[Array], jax.Array]:
    """Return a function that puts a private NumPy array on a device or sharding; its result is complete."""
    if _jax_shardings.has_mesh(device) and not device.is_fully_addressable:  # JAX would wait for the others
        what = "the sharding has devices of other processes, and only a vector environment has rows for them"
        hint = "wrap a gymnasium.vector.VectorEnv; or pass a sharding over jax.local_devices()"
        raise DeviceError(what, hint)

    def put(array: Array) -> Any:
        refuse_if_forked()
        return jax.device_put(array, device)

    return _jax_private.faster(put)


def share(take: Callable[[Array], jax.Array], array: Array) -> jax.Array:
    """Return an array on the same memory, which JAX uses only if it is aligned."""
    shared, address = take(array), array.__array_interface__["data"][0]
    if array.size and shared.unsafe_buffer_pointer() != address:
        is_odd = f"its address is not a multiple of {_ALIGNMENT} bytes"
        reason = is_odd if address % _ALIGNMENT else "JAX has copied it"
        raise SharingError(f"JAX cannot share this memory: {reason}", "pass copy=None")
    return shared


def copy_to(device: Any, array: jax.Array, dtype: str | None) -> jax.Array | None:
    """Return a copy on a device or sharding, so that the original may be donated."""
    if not _has_values(array):
        return None
    moves = device is not None and not is_on(device, array)
    # Of what is there already, `device_put` makes no copy.
    is_elsewhere = hasattr(device, "platform") and device not in array.devices()
    with jax.debug_nans(False), jax.debug_infs(False):  # a copy may contain them: it computes nothing
        if dtype not in (None, array.dtype.name) or not array.size:
            array = _cast(array, dtype or array.dtype.name)
        elif not is_elsewhere:
            array = jax.numpy.array(array, copy=True)
        if moves:
            array = jax.device_put(array if array.size else _values(array), device)
        return array


def copy_within(device: Any, array: jax.Array, dtype: str | None) -> Any:
    """Return a copy, complete on the CPU; on a GPU or TPU, what it reads is held until it is ready.

    XLA frees memory in the order of its own stream, but other frameworks do not free theirs in that order.
    """
    copy = copy_to(device, array, dtype)
    if copy is None or _jax_shardings.is_on_cpu(copy.sharding):
        return copy if copy is None else copy.block_until_ready()
    return Deferred(copy, hold_sources, (copy, array))


def hold_sources(tasks: list[tuple[jax.Array, jax.Array]]) -> None:
    """Hold what copies read until all of them are ready."""
    hold(
        is_done=lambda: all(copy.is_ready() for copy in _still_there(tasks)),
        synchronize=lambda: [copy.block_until_ready() for copy in _still_there(tasks)],
        objects=tasks,
    )


def _still_there(tasks: list[tuple[jax.Array, jax.Array]]) -> list[Any]:
    """Return the copies; instead of one that was donated, another, which is ready later."""
    for index, (copy, source) in enumerate(tasks):
        if copy.is_deleted() and not source.is_deleted():
            tasks[index] = jax.numpy.array(source, copy=True), source
    return [copy for copy, _ in tasks if not copy.is_deleted()]


def _cast(array: jax.Array, dtype: str) -> jax.Array:
    """Return a new array in the same place; on the CPU cast by NumPy, as XLA takes subnormals for zero."""
    if not (array.is_fully_addressable and on_host(array)):
        return array.astype(dtype)
    with np.errstate(all="ignore"):
        values = castable(_values(array), jax.numpy.dtype(dtype)).astype(dtype)
    return put_on(array.sharding if getattr(array, "committed", True) else None)(values)


def is_on(device: Any, array: jax.Array) -> bool:
    """Return whether an array is on a device, or has a sharding."""
    _has_values(array)
    if device is None:
        return True
    return bool(array.devices() == {device} if hasattr(device, "platform") else array.sharding == device)


@cache
def can_alias(device_type: int) -> bool:
    """Return whether JAX has devices of a type that DLPack knows by this number."""
    with suppress(KeyError, RuntimeError):  # JAX itself knows no other type, or has no such devices here
        return device_type == 1 or bool(jax.devices({2: "cuda", 10: "rocm"}[device_type]))
    return False


def _refuse_if_elsewhere(array: jax.Array) -> None:
    if not array.is_fully_addressable:
        what = "this process holds only some shards of the array"
        hint = "gather it by multihost_utils.process_allgather, or convert its addressable_shards"
        raise UnsupportedError(what, hint)


# ---- dtypes -----------------------------------------------------------------------------------------------


@cache
def _dtypes(x64: bool) -> frozenset[str]:
    """Return JAX's dtypes; the 64-bit ones only with x64, which can be switched on and off."""
    small = {name for name in ML_DTYPES | _JAX_ONLY if hasattr(jax.numpy, name)}  # newer versions have more
    return STANDARD | small if x64 else (STANDARD | small) - _ONLY_WITH_X64


# ---- what is refused --------------------------------------------------------------------------------------


def _has_values(array: Any) -> bool:
    """Return False for a typed PRNG key, which only JAX has; raise for what stands for an array."""
    refuse_if_forked()
    if isinstance(array, jax.core.Tracer):
        hint = "convert outside of jit, grad and vmap; to step an environment there, use arrayferry.in_jit"
        raise UnsupportedError("a JAX tracer has no values yet", hint)
    if not isinstance(array, jax.Array):
        raise UnsupportedError("a jax.Ref is a reference, not a value", "convert what it holds: ref[...]")
    if array.is_deleted():
        raise UnsupportedError("this JAX array was deleted or donated", "convert it earlier, or keep a copy")
    return not jax.numpy.issubdtype(array.dtype, jax.dtypes.extended)
