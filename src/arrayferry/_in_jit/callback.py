"""A call to the host in compiled code, by either of JAX's callbacks; it has no `vmap` and no gradients."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

import numpy as np

from arrayferry._in_jit.declared import Array, Leaf
from arrayferry.errors import UnsupportedError

__all__ = ["Function", "buffers_work", "by_buffers", "by_io", "guarded"]

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
    if hasattr(_thread, "is_kept") or _kept is None:
        return
    if (number := threading.get_native_id()) in _kept:
        _kept = None
        return
    _kept.add(number)
    ctypes.pythonapi.PyGILState_Ensure()
    _thread.is_kept = True


def guarded(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call in compiled code that has no gradient, and refuses to be batched."""
    import jax
    from jax.custom_derivatives import SymbolicZero

    @jax.custom_batching.custom_vmap
    def unbatched(*args: Any) -> Any:  # not around the callback: JAX before 0.8.3 drops an unused one
        return args

    @unbatched.def_vmap
    def refuse(size: int, batched: Any, *args: Any) -> NoReturn:
        hint = "make a vector environment, and pass that to in_jit"
        raise UnsupportedError(f"{name} cannot be under vmap: there is one environment", hint)

    called = jax.custom_jvp(lambda *args: call(*unbatched(*args)))

    def derive(primals: Any, tangents: Any) -> Any:
        if not all(isinstance(one, SymbolicZero) for one in jax.tree.leaves(tangents)):
            hint = "jax.lax.stop_gradient(action)"
            raise UnsupportedError(f"{name} has no gradient: it runs outside of JAX", hint)
        found = called(*primals)
        return found, jax.tree.map(lambda leaf: np.zeros(leaf.shape, _tangent_dtype(leaf.dtype)), found)

    called.defjvp(derive, symbolic_zeros=True)
    return called


def _tangent_dtype(dtype: np.dtype[Any]) -> Any:
    import jax

    return dtype if dtype.kind == "f" else jax.dtypes.float0


def by_io(function: Function, declared: list[Leaf], *args: Any) -> Any:
    """Call a function on the host by JAX's public callback."""
    from jax.experimental import io_callback

    def call(*args: Any) -> list[Array]:
        _keep_thread_state()
        outs = [np.empty(leaf.shape, leaf.dtype) for leaf in declared]
        function(outs, *map(np.asarray, args))
        return outs

    return io_callback(call, _structs(declared), *args)


def by_buffers(function: Function, declared: list[Leaf], *args: Any) -> Any:
    """Call a function on the host by JAX's experimental callback, which takes a fraction of the time.

    The first result, if any, is in the memory of the first argument, so that a loop does not copy its state.
    """
    from jax.experimental.buffer_callback import buffer_callback

    def call(context: Any, outs: list[Any], *args: Any) -> None:
        _keep_thread_state()
        function([out.__array__() for out in outs], *[arg.__array__() for arg in args])

    aliases = {0: 0} if declared else {}
    structs = _structs(declared)
    return buffer_callback(call, structs, has_side_effect=True, input_output_aliases=aliases)(*args)


def _structs(declared: list[Leaf]) -> list[Any]:
    import jax

    return [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in declared]  # type: ignore[no-untyped-call]


@cache
def buffers_work() -> bool:
    """Return whether `buffer_callback`, which is experimental, does what we need here."""
    import jax

    def count(outs: list[Array], old: Array, value: Array) -> None:
        outs[0][...] = old + np.uint32(1)
        outs[1][...] = value * 2

    declared = [Leaf("", (2,), np.dtype("uint32")), Leaf("", (), np.dtype("float32"))]
    if jax.default_backend() != "cpu":  # elsewhere NumPy cannot see the memory of its buffers
        return False
    try:
        step = lambda state, value: tuple(by_buffers(count, declared, state, value))  # noqa: E731
        start, values = jax.numpy.zeros(2, "uint32"), jax.numpy.arange(3.0, dtype="float32")
        last, doubled = jax.jit(lambda: jax.lax.scan(step, start, values))()
        return bool(last.tolist() == [3, 3] and doubled.tolist() == [0.0, 2.0, 4.0])
    except Exception:  # whatever it is, the other callback works
        return False
