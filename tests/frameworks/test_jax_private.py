"""Arrays that reach JAX by its private function are as those that `device_put` makes, whatever is set."""

from contextlib import nullcontext

import numpy as np
import pytest

import arrayferry
from arrayferry import Converter
from arrayferry._core.dtypes import STANDARD

jax = pytest.importorskip("jax")
ml_dtypes = pytest.importorskip("ml_dtypes")

from arrayferry._frameworks import _jax_private  # noqa: E402
from arrayferry._frameworks import jax as ours  # noqa: E402


def values(number=1.0):
    """One that is cast, one of no bytes, one of a shape, bools."""
    return {
        "a": np.full(4, number, np.float32),
        "b": np.full(3, number, np.int32),
        "c": np.full(2, number),
        "d": np.full((), number, np.float32),
        "e": np.full((0, 2), number, np.float32),
        "f": np.full((2, 3), number, np.float32),
        "g": np.full(2, number, bool),
        "h": np.full(2, number, np.float16),
    }


@pytest.fixture(scope="module")
def converter():
    """One that has asked `device_put` already."""
    converter = Converter("jax")
    converter.take(values())
    return converter


@pytest.mark.needs("jax>=0.8")  # where they are used
def test_the_private_function_is_where_it_was():
    """Without it all works, ten times slower: then look where it has gone."""
    assert _jax_private.batched_device_put() is not None


@pytest.mark.parametrize("name", sorted(ours.Jax().target(None).dtypes()))
def test_they_make_what_device_put_makes(converter, name):
    try:
        dtype = np.dtype(name) if name in STANDARD else np.dtype(getattr(ml_dtypes, name))
    except AttributeError:
        pytest.skip(f"this ml_dtypes has no {name}")
    for shape in ((), (4,), (0, 2), (3, 5), (400, 300)):
        array = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
        plain, found = jax.device_put(array.copy()), converter.take(array.copy())
        for attribute in "shape dtype aval weak_type sharding _committed".split():
            assert getattr(found, attribute) == getattr(plain, attribute), attribute
        assert np.asarray(found).tobytes() == array.tobytes()
        if "int2" not in name and "int4" not in name:  # JAX before 0.5 cannot add them
            assert (found + found).dtype == (plain + plain).dtype


def test_memory_of_another_kind():
    kinds = [memory.kind for memory in jax.devices()[0].addressable_memories()]
    for kind in kinds:
        there = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind=kind)
        converter, plain = Converter("jax", there), jax.device_put(np.ones(4, np.float32), there)
        for _ in range(3):
            found = converter.take(np.ones(4, np.float32))
            assert (found.aval, found.sharding) == (plain.aval, plain.sharding), kind


def test_where_jax_has_it_no_more(monkeypatch):
    monkeypatch.setattr(_jax_private, "batched_device_put", lambda: None)
    monkeypatch.setattr(_jax_private, "plans", {})
    put = ours.put_on.__wrapped__(None)
    for _ in range(3):
        assert put(np.arange(3, dtype=np.float32)).tolist() == [0, 1, 2]
    assert not _jax_private.plans


def test_only_the_first_array_of_a_shape_is_put_by_jaxs_own_function():
    shapes = []

    def put(array):
        shapes.append(array.shape)
        return jax.device_put(array)

    put_faster = _jax_private.faster(put)
    for size in (2, 3, 2, 3, 0, 0):
        assert put_faster(np.zeros(size, np.float32)).shape == (size,)
    assert shapes == [(2,), (3,), (0,)] or _jax_private.batched_device_put() is None


def test_the_table_of_shapes_does_not_grow_without_bound(monkeypatch):
    monkeypatch.setattr(_jax_private, "plans", {})
    monkeypatch.setattr(_jax_private, "_MANY_PLANS", 4)
    put = ours.put_on(None)
    for size in range(20):
        assert put(np.zeros(size, np.float32)).shape == (size,)
        assert len(_jax_private.plans) <= 4


def test_a_refusal_is_told_without_what_came_before_it(monkeypatch):
    monkeypatch.setattr(_jax_private, "plans", {})
    monkeypatch.setattr(ours, "_forked", True)
    with pytest.raises(arrayferry.errors.DeviceError) as caught:
        ours.put_on(None)(np.zeros(3, np.float32))
    assert caught.value.__context__ is None


def test_the_default_device_of_the_moment(run_python):
    code = """
import jax, numpy as np, arrayferry
converter, there = arrayferry.Converter("jax"), arrayferry.Converter("jax", "cpu:2")
devices = jax.devices()
for _ in range(2):
    for index in (0, 1, 3):
        with jax.default_device(devices[index]):
            made = converter.take(np.ones(3, np.float32))
            assert made.devices() == {devices[index]} and not made._committed, made.sharding
            made = there.take(np.ones(3, np.float32))
            assert made.devices() == {devices[2]} and made._committed, made.sharding
    assert converter.take(np.ones(3, np.float32)).devices() == {devices[0]}
print("fine")
"""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    assert run_python(code, **flags) == "fine\n"


def test_the_source_may_be_written_at_once_while_the_device_is_busy(converter):
    work, large = jax.jit(lambda x: x @ x @ x), jax.numpy.ones((800, 800))
    source = values()
    for step in range(300):
        working = work(large)
        for array in source.values():
            array[...] = step
        found = converter.take(source)
        for array in source.values():
            array[...] = -7
        assert all(array.is_ready() for array in found.values())
        expected = values(step)
        assert all((np.asarray(array) == expected[key]).all() for key, array in found.items())
    del working


@pytest.mark.filterwarnings("ignore:Invalid nan")
@pytest.mark.parametrize(
    "setting",
    [
        lambda: jax.debug_nans(True),
        lambda: jax.disable_jit(),
        lambda: jax.transfer_guard("disallow"),
        lambda: getattr(jax, "set_mesh", nullcontext)(jax.make_mesh((1,), ("x",))),
    ],
    ids=["debug_nans", "disable_jit", "transfer_guard", "mesh"],
)
def test_settings_that_a_transfer_does_not_mind(converter, setting):
    with setting():
        found = converter.take(values() | {"a": np.full(4, np.nan, np.float32)})
    assert np.isnan(np.asarray(found["a"])).all()
    for array in found.values():
        assert isinstance(array, jax.Array)
        assert isinstance(array.sharding, jax.sharding.SingleDeviceSharding)
        assert not array._committed


def test_inside_of_a_trace(converter):
    found = jax.jit(lambda x: converter.take(values(2))["a"] + x)(1.0)
    assert found.tolist() == [3, 3, 3, 3]
    large = np.ones(60_000, np.float32)
    for value in (large, large.copy(), [large, large]):
        first = jax.jit(lambda x, value=value: jax.tree.leaves(converter(value))[0][:2] + x)
        assert first(1.0).tolist() == [2, 2]


def test_x64_may_be_switched_on_and_off(converter):
    with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):
        assert converter.take(values())["c"].dtype == "float64"
    assert converter.take(values())["c"].dtype == "float32"


def test_every_array_gets_its_own_bits(converter):
    random, bits = np.random.default_rng(0), np.uint8
    for _ in range(50):
        made = {
            key: np.frombuffer(random.bytes(array.nbytes), array.dtype).reshape(array.shape).copy()
            for key, array in values().items()
            if array.dtype != bool and array.dtype != np.float64
        }
        made |= {"c": random.normal(size=2), "g": random.random(2) < 0.5}
        made = {key: made[key] for key in values()}
        found = converter.take(made)
        for key, array in made.items():
            got = np.asarray(found[key])
            assert got.shape == array.shape
            expected = array.astype(got.dtype)
            assert got.dtype == (np.float32 if key == "c" else array.dtype)
            assert (got.reshape(-1).view(bits) == expected.reshape(-1).view(bits)).all(), key


def test_where_the_device_is_given_arrays_are_committed_to_it():
    converter = Converter("jax", jax.devices()[0])
    for _ in range(300):
        found = converter.take(np.ones(4, np.float32))
    assert found._committed
    assert found.devices() == {jax.devices()[0]}


def test_arrays_are_ready_with_jit_disabled_and_with_a_busy_device(run_python):
    pytest.importorskip("jax")
    printed = run_python(
        "import jax, numpy as np, arrayferry\n"
        "to_jax = arrayferry.Converter('jax')\n"
        "with jax.disable_jit():\n"
        "    print({isinstance(to_jax({'x': np.ones(4, 'f')})['x'], jax.Array) for _ in range(8)})\n"
        "heavy = jax.jit(lambda m: jax.lax.fori_loop(0, 30, lambda i, x: x @ x * 1e-3, m))\n"
        "m = jax.numpy.ones((800, 800)); heavy(m).block_until_ready()\n"
        "busy = heavy(m); ready = [to_jax({'x': np.ones(4, 'f')})['x'].is_ready() for _ in range(8)]\n"
        "print(set(ready)); busy.block_until_ready()\n"
    )
    assert printed == "{True}\n{True}\n"


@pytest.mark.parametrize("size", [1 << 10, 30_000, 60_000, 1 << 20])
def test_arrays_of_any_size_are_ready_while_the_device_is_busy(size):
    work, large, converter = jax.jit(lambda x: x @ x @ x), jax.numpy.ones((800, 800)), Converter("jax")
    array = np.zeros(size, np.float32)
    for _ in range(30):
        working = work(large)
        assert converter(array).is_ready()
        assert converter.take(np.zeros(size, np.float32)).is_ready()
    del working


def test_array_type_is_right_if_jax_is_first_met_inside_of_a_trace(run_python):
    code = """
import jax, arrayferry, numpy as np
def f(x):
    try:
        arrayferry.convert(x, "numpy")
    except arrayferry.errors.UnsupportedError:
        return x
jax.jit(f)(1.0)
from arrayferry._frameworks.jax import array_type
print(array_type() is type(jax.numpy.ones(3)))
"""
    assert run_python(code) == "True\n"
