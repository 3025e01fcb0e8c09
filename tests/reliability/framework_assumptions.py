"""R17: what the frameworks do, and our policy rests on. When one of these fails, a framework has changed."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import pytest

from arrayferry.testing import at_offset
from reliability.goals import Goal
from reliability.libraries import Library

ASSUMPTIONS: list[Callable[[], None]] = []


def assumption(
    since: tuple[int, ...] = (), until: tuple[int, ...] = (99,)
) -> Callable[[Callable[[], None]], None]:
    """Add a check to the list: it holds for JAX from one version until before another, and for no other.

    The versions between which it changed were seen; where exactly, is not known.
    """

    def add(check: Callable[[], None]) -> None:
        @wraps(check)
        def check_version() -> None:
            expected = (since, until) == ((), (99,)) or since <= _jax().__version_info__ < until
            try:
                check()
            except AssertionError:
                assert not expected, f"{check.__name__}: it does so no longer"
            else:
                assert expected, f"{check.__name__}: it does so again"

        ASSUMPTIONS.append(check_version)

    return add


def _torch() -> Any:
    return pytest.importorskip("torch")


def _jax() -> Any:
    return pytest.importorskip("jax")


def _raises(kind: type[Exception], words: str, call: Callable[[], Any]) -> bool:
    try:
        call()
    except kind as error:
        return words in str(error)
    return False


# --- torch


@assumption()
def torch_dlpack_aborts_on_a_negative_stride() -> None:
    """https://github.com/pytorch/pytorch/issues/188023"""
    _torch()
    code = "import numpy, torch; torch.from_dlpack(numpy.arange(3.)[::-1])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -signal.SIGABRT


@assumption()
def torch_dlpack_makes_read_only_memory_writable() -> None:
    torch, array = _torch(), np.zeros(3, "float32")
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # and it says nothing
        torch.from_dlpack(array).fill_(5)
    assert array.tolist() == [5, 5, 5]


@assumption()
def torch_dlpack_makes_jax_arrays_writable() -> None:
    torch, jnp = _torch(), _jax().numpy
    immutable = jnp.zeros(3)
    torch.from_dlpack(immutable).fill_(5)
    assert np.asarray(immutable).tolist() == [5, 5, 5]


@assumption()
def torch_dlpack_loses_the_negative_bit() -> None:
    negative = _torch().tensor([1 + 2j, 3 - 4j]).conj().imag
    assert negative.tolist() == [-2, 4]
    assert np.from_dlpack(negative).tolist() == [2, -4]


@assumption()
def torch_tensors_are_aligned_to_64_bytes() -> None:
    torch = _torch()
    assert {torch.empty(size).data_ptr() % 64 for size in range(1, 3_000, 7)} == {0}


@assumption()
def torch_tensors_of_inference_mode_cannot_be_trained_on() -> None:
    torch = _torch()
    with torch.inference_mode():
        inside = torch.from_numpy(np.ones(2, "float32"))
    weight = torch.ones(2, requires_grad=True)
    assert _raises(RuntimeError, "Inference tensors cannot be saved for backward", lambda: weight * inside)


@assumption()
def torch_default_device_moves_what_is_converted() -> None:
    torch = _torch()
    with torch.device("meta"):
        assert torch.as_tensor(np.ones(2)).is_meta
        assert not torch.from_numpy(np.ones(2)).is_meta


# --- JAX


def _put(array: Any, **options: Any) -> int:
    return int(_jax().device_put(array, **options).unsafe_buffer_pointer())


@assumption()
def jax_adopts_memory_that_is_aligned_to_64_bytes() -> None:
    for offset, adopts in (0, True), (32, False), (16, False), (4, False):
        array = at_offset(np.zeros(1024, "float32"), offset)
        assert (_put(array) == array.ctypes.data) is adopts, offset


@assumption()
def jax_may_alias_false_aliases() -> None:
    """https://github.com/jax-ml/jax/issues/37830"""
    array = at_offset(np.zeros(1024, "float32"), 0)
    assert _put(array, may_alias=False) == array.ctypes.data


@assumption(since=(0, 7))
def jax_from_dlpack_with_copy_aliases() -> None:
    array = at_offset(np.zeros(1024, "float32"), 0)
    made = _jax().numpy.from_dlpack(array, copy=True)
    assert made.unsafe_buffer_pointer() == array.ctypes.data


@assumption(since=(0, 7))
def jax_asarray_without_copy_copies() -> None:
    array = at_offset(np.zeros(1024, "float32"), 0)
    made = _jax().numpy.asarray(array, copy=False)
    assert made.unsafe_buffer_pointer() != array.ctypes.data


def _late_reads(size: int, offset: int, tries: int, enough: int = 1) -> int:
    """How often `jnp.array` read what was written after it had returned."""
    jnp, late = _jax().numpy, 0
    array = at_offset(np.zeros(size // 4, "float32"), offset)
    for number in range(tries):
        array[:] = number
        made = jnp.array(array)
        array[:] = -1
        late += not bool((np.asarray(made) == number).all())
        if late == enough:
            break
    return late


@assumption()
def jax_reads_late_while_the_device_is_busy() -> None:
    jax = _jax()
    learn = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda _, y: jax.numpy.tanh(y @ y), x))
    weights = jax.numpy.ones((300, 300)) / 300
    learn(weights).block_until_ready()
    if jax.__version_info__ < (0, 7) and learn(weights).is_ready():
        pytest.skip("since a callback has raised, this JAX waits for every result")
    for _ in range(300):  # one is enough; on a busy machine, the device may be done before we are
        pending = learn(weights)
        late = _late_reads(4096, 0, tries=1)
        pending.block_until_ready()
        if late:
            return
    raise AssertionError


@assumption(until=(0, 11))
def jax_reads_large_unaligned_memory_late() -> None:
    assert _late_reads(1 << 24, 4, tries=400) > 0


@assumption()
def jax_reads_small_unaligned_memory_at_once() -> None:
    assert _late_reads(102_396, 4, tries=1_000) == 0


@assumption()
def jax_warm_jit_misreads_big_endian() -> None:
    double = _jax().jit(lambda x: x * 2)
    double(np.arange(3, dtype="float32"))
    assert np.asarray(double(np.arange(3, dtype=">f4"))).tolist() != [0, 2, 4]


@assumption()
def jax_narrows_in_silence() -> None:
    jax = _jax()
    with jax.enable_x64(False), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jax.numpy.asarray(np.array([2**40])).tolist() == [0]


@assumption()
def jax_counts_on_bools_of_0_and_1() -> None:
    odd = np.array([1, 2, 0], "uint8").view(bool)
    assert int(odd.sum()) == 2
    assert int(_jax().numpy.asarray(odd).astype("uint8").sum()) != 2


@assumption(since=(0, 7))
def jax_debug_nans_refuses_to_convert_nan() -> None:
    jax = _jax()
    source = np.array([np.nan], "float32")
    with jax.debug_nans(True):
        assert _raises(FloatingPointError, "nan", lambda: jax.numpy.asarray(source).block_until_ready())


def holds(number: int, library: Library) -> None:
    ASSUMPTIONS[number]()


GOALS = [
    Goal(
        name="R17",
        title="the frameworks do as measured",
        trial=holds,
        unit="one of the assumptions about torch and JAX that the policy rests on",
        full=len(ASSUMPTIONS),
        thin=len(ASSUMPTIONS),
        sampled=False,
        isolated=True,
    )
]
