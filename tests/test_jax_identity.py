"""Arrays that reach JAX by the compiled identity are as those that `device_put` makes, whatever is set."""

from contextlib import nullcontext

import numpy as np
import pytest

from arrayferry import Converter

jax = pytest.importorskip("jax")


def values(number=1.0):
    """Some that go alone, and some that are packed; one that is cast, one of no bytes, one of a shape."""
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
def compiled():
    """A converter that has seen these shapes often enough to have them compiled."""
    converter = Converter("jax")
    for _ in range(200):
        converter.unbox([values()])
    return converter


def test_the_source_may_be_written_at_once_while_the_device_is_busy(compiled):
    work, large = jax.jit(lambda x: x @ x @ x), jax.numpy.ones((800, 800))
    source = values()
    for step in range(300):
        working = work(large)
        for array in source.values():
            array[...] = step
        [found] = compiled.unbox([source])
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
def test_settings_that_a_transfer_does_not_mind(compiled, setting):
    with setting():
        [found] = compiled.unbox([values() | {"a": np.full(4, np.nan, np.float32)}])
    assert np.isnan(np.asarray(found["a"])).all()
    for array in found.values():
        assert isinstance(array, jax.Array)
        assert isinstance(array.sharding, jax.sharding.SingleDeviceSharding)
        assert not array.committed


def test_inside_of_a_trace(compiled):
    found = jax.jit(lambda x: compiled.unbox([values(2)])[0]["a"] + x)(1.0)
    assert found.tolist() == [3, 3, 3, 3]
    large = np.ones(60_000, np.float32)
    for value in (large, large.copy(), [large, large]):
        first = jax.jit(lambda x, value=value: jax.tree.leaves(compiled(value))[0][:2] + x)
        assert first(1.0).tolist() == [2, 2]


def test_x64_may_be_switched_on_and_off(compiled):
    with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):
        assert compiled.unbox([values()])[0]["c"].dtype == "float64"
    assert compiled.unbox([values()])[0]["c"].dtype == "float32"


def test_every_array_gets_its_own_bits(compiled):
    random, bits = np.random.default_rng(0), np.uint8
    for _ in range(50):
        made = {
            key: np.frombuffer(random.bytes(array.nbytes), array.dtype).reshape(array.shape).copy()
            for key, array in values().items()
            if array.dtype != bool and array.dtype != np.float64
        }
        made |= {"c": random.normal(size=2), "g": random.random(2) < 0.5}
        made = {key: made[key] for key in values()}
        [found] = compiled.unbox([made])
        for key, array in made.items():
            got = np.asarray(found[key])
            assert got.shape == array.shape
            expected = array.astype(got.dtype)
            assert got.dtype == (np.float32 if key == "c" else array.dtype)
            assert (got.reshape(-1).view(bits) == expected.reshape(-1).view(bits)).all(), key


def test_a_bool_of_any_byte_is_true(compiled):
    odd = np.frombuffer(b"\x02\x00\x03\x01", np.uint8).view(bool)
    for _ in range(300):
        [found] = compiled.unbox([odd.copy()])
    assert found.astype(int).tolist() == [1, 0, 1, 1]


def test_more_arrays_than_one_call_takes(compiled):
    for step in range(5):
        [found] = compiled.unbox([[np.full(2, i, np.float32) for i in range(150)]])
        assert [int(array[0]) for array in found] == list(range(150)), step


def test_thousands_of_arrays_are_not_cut_again_and_again(compiled):
    """Slices of slices would take time and depth that grow with the square."""
    value = [np.full(1, i % 7, np.float32) for i in range(70_000)]
    found = compiled.unbox([value])[0]
    assert len(found) == len(value)
    assert all(int(found[i][0]) == i % 7 for i in range(0, len(value), 6_999))


def test_where_the_device_is_given_arrays_are_committed_to_it():
    converter = Converter("jax", jax.devices()[0])
    for _ in range(300):
        [found] = converter.unbox([np.ones(4, np.float32)])
    assert found.committed
    assert found.devices() == {jax.devices()[0]}
