"""The snapshot is complete when the call returns, however busy JAX's device is.

JAX reads what it is given later: so the source is overwritten right after the call, while a jitted
computation keeps the device busy, and the result has to have the values from before.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest

from arrayferry import Converter
from arrayferry.testing import at_offset, bits

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

SIZES = [16, 4_096, 102_396, 102_400, 1 << 20]


@jax.jit
def learn(x):
    return jax.lax.fori_loop(0, 60, lambda _, x: jnp.tanh(x @ x), x)


@pytest.fixture(scope="module")
def start_learning():
    """A function that keeps the device busy for a while."""
    weights = jnp.ones((700, 700)) / 700
    learn(weights).block_until_ready()
    return lambda: learn(weights)


def count_changed(put, sources, start_learning, repeats=10):
    """How often the result was not what the source held when `put` was called."""
    results = []
    for _ in range(20):
        pending = start_learning()
        for number, source in product(range(repeats), sources):
            source[:] = number
            result = put(source)
            source[:] = -1
            if pending.is_ready():  # too late to tell: it was not busy all the time
                break
            results.append((number, result))
        pending.block_until_ready()
        if len(results) >= repeats * len(sources):
            return sum(not (np.asarray(result) == number).all() for number, result in results)
    raise AssertionError("the device was never busy for long")


@pytest.mark.parametrize("offset", [0, 16, 4])
def test_numpy_source_may_be_overwritten_at_once(start_learning, offset):
    sources = [at_offset(np.zeros(size // 4, "float32"), offset) for size in SIZES]
    assert count_changed(Converter("jax"), sources, start_learning) == 0


@pytest.mark.parametrize("offset", [0, 4])
def test_narrowed_source_may_be_overwritten_at_once(start_learning, offset):
    sources = [at_offset(np.zeros(size // 8, "float64"), offset) for size in SIZES]
    with jax.enable_x64(False):
        assert count_changed(Converter("jax"), sources, start_learning) == 0


def test_torch_source_may_be_overwritten_at_once(start_learning):
    torch = pytest.importorskip("torch")
    sources = [torch.zeros(size // 4) for size in SIZES]
    assert count_changed(Converter("jax"), sources, start_learning) == 0


def test_idle_device_reads_nothing_late():
    # Without a learner: large unaligned arrays are what JAX copies in the background then.
    source = at_offset(np.zeros(1 << 20, "float32"), 4)
    to_jax, results = Converter("jax"), []
    for number in range(20):
        source[:] = number
        results.append(to_jax(source))
        source[:] = -1
    assert all((np.asarray(result) == number).all() for number, result in enumerate(results))


def test_threads_may_share_a_converter(name):
    converter, wrong = Converter(name), []
    interval = sys.getswitchinterval()

    def work(thread):
        for step in range(100):
            source = type("Info", (dict,), {})(
                x=np.full(8, thread, "int32"), step=[step]
            )  # a new type each time
            result = converter(source)
            if type(result) is not type(source) or bits(result["x"]) != bits(source["x"]):
                wrong.append((thread, step))

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


def test_bare_jax_would_be_caught(start_learning):
    source = at_offset(np.zeros(1024, "float32"), 0)
    assert count_changed(jnp.array, [source], start_learning) > 0


def test_pending_result_is_waited_for(name, start_learning):
    wanted = np.asarray(start_learning())
    result = Converter(name)(start_learning())
    assert np.array_equal(np.asarray(Converter("numpy")(result)), wanted)


def test_view_of_a_jax_array_outlives_its_donation(start_learning):
    source = jnp.arange(1024.0)
    view = Converter("numpy", copy=False)(source)
    jax.jit(lambda x: x * 0, donate_argnums=0)(source).block_until_ready()
    assert view.tolist() == list(range(1024))
