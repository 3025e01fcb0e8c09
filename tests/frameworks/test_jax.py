"""JAX: a result is complete when the call returns, whatever the device does; and what is refused.

JAX reads what it is given later: so the source is overwritten right after the call, while a jitted
computation keeps the device busy, and the result has to have the values from before. For arrays that keep
their dtype that is R2 in reliability/races.py, of which reliability/test_goals.py makes a few trials.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from arrayferry import Converter, convert
from arrayferry.testing import at_offset
from frameworks.refused import refused, targets

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
    if jax.__version_info__ < (0, 7) and learn(weights).is_ready():
        pytest.skip("since a callback has raised, this JAX waits for every result")
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


@pytest.mark.parametrize("offset", [0, 4])
def test_narrowed_source_may_be_overwritten_at_once(start_learning, offset):
    sources = [at_offset(np.zeros(size // 8, "float64"), offset) for size in SIZES]
    with jax.enable_x64(False):
        assert count_changed(Converter("jax"), sources, start_learning) == 0


def test_source_in_torchs_own_memory_may_be_overwritten_at_once(start_learning):
    torch = pytest.importorskip("torch")
    sources = [torch.zeros(size // 4) for size in SIZES]
    assert count_changed(Converter("jax"), sources, start_learning) == 0


def test_late_reads_of_bare_jax_are_noticed(start_learning):
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


# --- what is refused, and settings that change nothing


@targets
def test_deleted_array(target):
    array = jax.numpy.arange(3)
    array.delete()
    refused(array, target, "deleted or donated")
    array = jax.numpy.arange(3.0)
    jax.jit(lambda x: x + 1, donate_argnums=0)(array)
    refused(array, target, "deleted or donated")


@targets
def test_tracer(target):
    def look(x):
        refused(x, target, "tracer", "outside of jit", "arrayferry.in_jit")
        return x

    jax.jit(look)(1.0)
    jax.grad(lambda x: look(x) * 2)(1.0)
    jax.vmap(look)(jax.numpy.ones(2))


@targets
def test_ref(target):
    if not hasattr(jax, "new_ref"):
        pytest.skip("this JAX has no refs")
    refused(jax.new_ref(jax.numpy.ones(2)), target, "jax.Ref", "ref[...]")


@targets
def test_shape_without_values_is_a_leaf(target):
    shape = jax.ShapeDtypeStruct((2,), "float32")
    assert convert([shape], target)[0] is shape


def test_debug_nans_and_transfer_guard_do_not_stop_a_conversion():
    source = np.array([np.nan, np.inf], "float32")
    there = jax.numpy.asarray(source)
    with jax.debug_nans(True), jax.debug_infs(True), jax.transfer_guard("disallow"):
        for value in source, there:
            assert np.isnan(np.asarray(convert(value, "jax"))[0])
            assert convert(value, "jax", dtypes={"float32": "float16"}).dtype == "float16"
        assert convert(2.5, "jax").dtype == "float32"


def test_result_is_not_committed_to_a_device():
    for source in np.ones(2, "float32"), 1.5, np.float32(2):
        assert not convert(source, "jax")._committed


def test_layouts_do_not_add_to_the_jit_cache():
    @jax.jit
    def step(x):
        return x + 1

    grid = np.arange(6, dtype="float32").reshape(2, 3)
    for source in (
        grid,
        grid[::-1],
        np.asfortranarray(grid),
        np.repeat(grid, 2, 1)[:, ::2],
        grid.astype(">f4"),
    ):
        step(convert(source, "jax"))
    assert step._cache_size() == 1
