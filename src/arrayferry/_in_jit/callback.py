"""A call to the host in compiled code, by either of JAX's callbacks; it has no `vmap` and no gradients."""

from __future__ import annotations

import atexit
import ctypes
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from time import monotonic, sleep
from typing import Any, NoReturn

import numpy as np

from arrayferry._frameworks.jax import jax, mapped_axes
from arrayferry._in_jit.declared import Array, Leaf
from arrayferry.errors import UnsupportedError

__all__ = ["Function", "buffers_work", "by_buffers", "via_io_callback", "guarded", "stop_rollouts_at_exit"]

# Takes a list of arrays to write its results into, then its arguments, arrays too. None of them outlives the
# call. It reads its first argument before it writes its first result: they may be the same memory.
Function = Callable[..., None]

_thread = threading.local()

# The native ids of the threads whose state was kept; None if it cannot be kept.
_kept: set[int] | None = set()


def _keep_thread_state() -> None:
    """Keep Python's thread state of this thread, which XLA may have started.

    Python makes a state for such a thread when a callback begins and deletes it when the callback ends, which
    takes longer than a step of CartPole. An extra `PyGILState_Ensure` keeps it, and the mark in `_thread`.
    On Python 3.15 each callback gets a new state all the same; once this is noticed, no more are kept.
    """
    global _kept
    if _kept is None:
        return
    if (number := threading.get_native_id()) in _kept:
        _kept = None
        return
    _kept.add(number)
    ctypes.pythonapi.PyGILState_Ensure()
    _thread.is_kept = True


# ---- the end of the interpreter ------------------------------------------------------------------------

# A thread of XLA that wants to run Python while the interpreter ends aborts the process. A rollout in a
# daemon thread goes on until then; so at exit its next callback waits, for a lock that nobody releases.
_never = threading.Lock()
_never.acquire()

# By the id of a function: when its last call returned; and those that wait at the next.
_last: dict[int, float] = {}
_stopped: frozenset[int] = frozenset()
_ACTIVE = float("inf")

# How long after a callback the next one of its rollout is expected, and for how long at most, in seconds.
_PAUSE, _PATIENCE = 1.0, 10.0


@cache
def stop_rollouts_at_exit() -> None:
    """Let every rollout that is still going on at exit stop at its next callback."""
    atexit.register(_stop_rollouts)  # after JAX was imported, so that it runs before JAX cleans up


def _stop_rollouts() -> None:
    global _stopped
    with suppress(Exception):
        jax.effects_barrier()  # type: ignore[no-untyped-call]  # this thread's own, which JAX waits for anyway
    start = now = monotonic()
    if len(sys._current_frames()) > 1:  # there are other threads
        _stopped = frozenset(number for number, last in list(_last.items()) if now < last + _PAUSE)
    while any(now < _last.get(number, 0) + _PAUSE for number in _stopped) and now < start + _PATIENCE:
        sleep(0.001)
        now = monotonic()


def _on_host(function: Function) -> Callable[[list[Array], list[Array]], None]:
    """Return a function that calls another on the host, with the `jax_enable_x64` of the traced code.

    XLA's threads do not have the setting of a `with jax.enable_x64(...)` around the code.
    """
    number, config, is_wide = id(function), jax.config, jax.config.jax_enable_x64  # type: ignore[attr-defined]
    before_0_8: Any = jax.experimental
    enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else before_0_8.enable_x64

    def run(outs: list[Array], args: list[Array]) -> None:
        if not hasattr(_thread, "is_kept"):
            _keep_thread_state()
        if number in _stopped:
            _last.pop(number, None)
            _never.acquire(timeout=10 * _PATIENCE)
        _last[number] = _ACTIVE
        try:
            if config.jax_enable_x64 == is_wide:  # type: ignore[attr-defined]
                function(outs, *args)
            else:
                with enable_x64(is_wide):
                    function(outs, *args)
        finally:
            _last[number] = monotonic()

    return run


# ---- the callbacks -------------------------------------------------------------------------------------


def guarded(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call in compiled code that has no gradient, and refuses to be batched or mapped."""
    from jax.custom_derivatives import SymbolicZero

    if mapped_axes():
        what = f"{name} cannot be under pmap or shard_map: there is one environment, not one for each device"
        raise UnsupportedError(what, "call it outside of them, in jit, and pass on what it returns")

    @jax.custom_batching.custom_vmap
    def unbatched(*args: Any) -> Any:  # not around the callback: JAX before 0.8.3 drops an unused one
        return args

    @unbatched.def_vmap
    def refuse(size: int, batched: Any, *args: Any) -> NoReturn:
        hint = "make a vector environment, and pass that to in_jit"
        raise UnsupportedError(f"{name} cannot be under vmap: there is one environment", hint)

    called = jax.custom_jvp(lambda *args: call(*unbatched(*args)))

    def derive(primals: Any, tangents: Any) -> Any:
        if not all(isinstance(tangent, SymbolicZero) for tangent in jax.tree.leaves(tangents)):
            hint = "jax.lax.stop_gradient(action)"
            raise UnsupportedError(f"{name} has no gradient: it runs outside of JAX", hint)
        results = called(*primals)
        kinds = [leaf.dtype if leaf.dtype.kind == "f" else jax.dtypes.float0 for leaf in results]
        return results, [np.zeros(leaf.shape, kind) for leaf, kind in zip(results, kinds)]

    called.defjvp(derive, symbolic_zeros=True)
    return called


def via_io_callback(function: Function, declared: list[Leaf], *args: Any) -> Any:
    """Call a function on the host by JAX's public callback."""
    from jax.experimental import io_callback

    run = _on_host(function)
    given = [Leaf("", arg.shape, arg.dtype) for arg in args]

    def call(*args: Any) -> list[Array]:
        outs = [np.empty(leaf.shape, leaf.dtype) for leaf in declared]
        run(outs, [np.asarray(arg).view(leaf.dtype).reshape(leaf.shape) for arg, leaf in zip(args, given)])
        return [out.reshape(*out.shape, 1).view("uint32") if _is_wide(out) else out for out in outs]

    # JAX would halve 64-bit values in a thread without `jax_enable_x64`: they travel as words.
    bits: Any = jax.lax.bitcast_convert_type
    words: Any = lambda arrays: [bits(one, "uint32") if _is_wide(one) else one for one in arrays]  # noqa: E731
    results = io_callback(call, jax.eval_shape(words, _structs(declared)), *words(args))
    results = [bits(out, leaf.dtype) if _is_wide(leaf) else out for out, leaf in zip(results, declared)]
    # A program for many devices that is nothing but a callback returns arrays that no other program takes.
    return jax.lax.optimization_barrier(results)  # type: ignore[no-untyped-call]


def _is_wide(leaf: Any) -> bool:
    return leaf.dtype.name in ("float64", "int64", "uint64")


def by_buffers(function: Function, declared: list[Leaf], *args: Any) -> Any:
    """Call a function on the host by JAX's experimental callback, which takes a fraction of the time.

    The first result, if any, is in the memory of the first argument, so that a loop does not copy its state.
    """
    from jax.experimental.buffer_callback import buffer_callback

    run = _on_host(function)

    def call(context: Any, outs: list[Any], *args: Any) -> None:
        run([out.__array__() for out in outs], [arg.__array__() for arg in args])

    aliases = {0: 0} if declared else {}
    structs = _structs(declared)
    return buffer_callback(call, structs, has_side_effect=True, input_output_aliases=aliases)(*args)


def _structs(declared: list[Leaf]) -> list[Any]:
    return [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in declared]  # type: ignore[no-untyped-call]


@cache
def buffers_work() -> bool:
    """Return whether `buffer_callback`, which is experimental, does what we need here."""

    def count(outs: list[Array], old: Array, value: Array) -> None:
        outs[0][...] = old + np.uint32(1)
        outs[1][...] = value * 2

    declared = [Leaf("", (2,), np.dtype("uint32")), Leaf("", (), np.dtype("float32"))]
    # Elsewhere NumPy cannot see the memory of its buffers; and it has no place in a program for many devices.
    if jax.default_backend() != "cpu" or jax.device_count() > 1:
        return False
    try:
        step = lambda state, value: tuple(by_buffers(count, declared, state, value))  # noqa: E731
        start, values = jax.numpy.zeros(2, "uint32"), jax.numpy.arange(3.0, dtype="float32")
        last, doubled = jax.jit(lambda: jax.lax.scan(step, start, values))()
        return bool(last.tolist() == [3, 3] and doubled.tolist() == [0.0, 2.0, 4.0])
    except Exception:  # whatever it is, the other callback works
        return False
