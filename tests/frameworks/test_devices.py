"""Devices by name and as objects; unknown ones are errors that list those that there are."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from arrayferry import Converter, convert, frameworks
from arrayferry.errors import DeviceError
from arrayferry.testing import bits, edges


def test_unknown_device_is_an_error_that_lists_them(name):
    for unknown in "no-such-device", "cuda:99", "cpu:-1", "cpu:x", "", 7.5:
        with pytest.raises(ValueError, match="device") as caught:
            convert(edges("float32"), name, unknown)
        assert isinstance(caught.value, DeviceError)
        assert caught.value.what.startswith(f"{name} has no device")
        for device in frameworks()[name].devices:
            assert device in caught.value.hint


def test_every_device_by_name(name):
    for device in frameworks()[name].devices:
        converter = Converter(name, device)
        again = pickle.loads(pickle.dumps(converter))
        results = [converter({"x": edges("float32")})["x"], again(edges("float32"))]
        for result in results:
            assert tuple(result.shape) == (2, 3)
        assert repr(again) == repr(converter)


def test_cpu_is_a_device_of_all(name):
    if name == "cupy":
        pytest.skip("cupy has only GPUs")
    assert bits(convert(edges("float32"), name, "cpu")) == bits(edges("float32"))


def test_none_is_the_default_device(name):
    assert Converter(name).device is None
    assert pickle.loads(pickle.dumps(Converter(name))).device is None


def test_torch_devices():
    torch = pytest.importorskip("torch")
    for device in "cpu", torch.device("cpu"):
        for source in edges("float32"), convert(edges("float32"), "torch"), 1.5:
            assert convert(source, "torch", device).device == torch.device("cpu")
    for meta in "meta", torch.device("meta"):
        with pytest.raises(DeviceError, match="no device 'meta'"):
            Converter("torch", meta)
    assert "meta" not in frameworks()["torch"].devices


@pytest.mark.needs("numpy>=2")  # array-api-strict moves its arrays by asarray(copy=True)
def test_array_api_strict_devices():
    xp = pytest.importorskip("array_api_strict")
    for device in "device1", xp.Device("device1"):
        result = convert({"x": edges("float32")}, "array_api_strict", device)["x"]
        assert result.device == xp.Device("device1")
        assert bits(convert(result, "numpy")) == bits(edges("float32"))
        assert bits(convert(result, "array_api_strict", "cpu")) == bits(edges("float32"))
        assert convert(result, "array_api_strict", "cpu").device == xp.Device("CPU_DEVICE")


def test_array_api_strict_devices_without_wide_dtypes():
    xp = pytest.importorskip("array_api_strict")
    if "no_float64" not in frameworks()["array_api_strict"].devices:
        pytest.skip("this array-api-strict has no such device")
    result = convert(np.array([0.5, 1.5]), "array_api_strict", "no_float64")
    assert result.dtype == xp.float32
    with pytest.raises(OverflowError, match=r"1e\+300"):
        convert(np.array([1e300]), "array_api_strict", "no_float64")
    with pytest.raises(OverflowError, match="1099511627776"):
        convert(np.array([2**40]), "array_api_strict", "no_x64")


def test_jax_devices():
    jax = pytest.importorskip("jax")
    cpu = jax.devices("cpu")[0]
    for device in "cpu", "cpu:0", cpu, jax.sharding.SingleDeviceSharding(cpu):
        for source in edges("float32"), convert(edges("float32"), "jax"), 1.5:
            assert convert(source, "jax", device).devices() == {cpu}
    assert pickle.loads(pickle.dumps(Converter("jax", cpu))).device is cpu


TWO_DEVICES = """
import pickle
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import arrayferry
from arrayferry import Converter, convert
from arrayferry.testing import bits, edges, check_framework

first, second = jax.devices()
assert arrayferry.frameworks()["jax"].devices == ("cpu:0", "cpu:1")
assert Converter("jax", "cpu:1").device is second

# A second device: from NumPy, from JAX, a number.
for source in edges("float32"), convert(edges("float32"), "jax"), 1.5, np.float32(2):
    assert convert(source, "jax", "cpu:1").devices() == {second}, source
there = convert(edges("float32"), "jax", second)
assert convert(there, "jax").devices() == {second}
assert convert(there, "jax", first).devices() == {first}
assert bits(convert(there, "numpy")) == bits(edges("float32"))
assert bits(convert(there, "torch")) == bits(edges("float32"))
assert pickle.loads(pickle.dumps(Converter("jax", second))).device is second
try:
    convert(there, "jax", first, copy=False)
except arrayferry.errors.SharingError as error:
    assert "copy=None" in error.hint
else:
    raise AssertionError("shared across devices")
source = np.frombuffer(bytearray(4096 + 64), np.uint8)
source = source[-source.ctypes.data % 64:][:4096].view("float32")
for device in None, "cpu:0", "cpu:1":
    try:
        result = convert(source, "jax", device, copy=False)
    except arrayferry.errors.SharingError:
        continue
    source[:] = 7
    assert (np.asarray(result) == 7).all(), device
try:
    Converter("jax", "cpu:2")
except arrayferry.errors.DeviceError as error:
    assert "cpu:0, cpu:1" in str(error), error
else:
    raise AssertionError("there is no third device")

# A sharding as the target; a sharded and a replicated source is gathered.
mesh = Mesh(np.array([first, second]), ("batch",))
for spec, whole in (PartitionSpec("batch"), False), (PartitionSpec(), True):
    sharding = NamedSharding(mesh, spec)
    batch = np.arange(8, dtype="float32").reshape(4, 2)
    sharded = convert({"x": batch}, "jax", sharding)["x"]
    batch[:] = -1
    assert sharded.sharding == sharding
    assert sharded.is_fully_replicated == whole
    wanted = np.arange(8, dtype="float32").tobytes()
    for target in "numpy", "torch", "jax":
        assert bits(convert(sharded, target)) == wanted, target
    assert convert(sharded, "jax").sharding == sharding
    assert convert(sharded, "jax", "cpu:1").devices() == {second}
    moved = Converter("jax", sharding)(convert(np.arange(8, dtype="float32").reshape(4, 2), "jax"))
    assert moved.sharding == sharding and bits(moved) == wanted
    try:
        convert(sharded, "numpy", copy=False)
    except arrayferry.errors.SharingError as error:
        assert "copy=None" in error.hint
    else:
        raise AssertionError("two devices have no one memory")
check_framework("jax")

# What was converted from one device to many, or back, outlives its source: JAX itself shares the common part.
everywhere = NamedSharding(mesh, PartitionSpec())
for old, new in (first, everywhere), (everywhere, first), (everywhere, second), (first, second):
    source = jax.device_put(np.ones(4, "float32"), old)
    moved = convert(source, "jax", new)
    source.delete()
    assert np.asarray(moved).tolist() == [1, 1, 1, 1], (old, new)

# An empty array from jit, whose shards JAX itself fails to join.
sharding = NamedSharding(mesh, PartitionSpec("batch"))
swapped = NamedSharding(Mesh(np.array([second, first]), ("batch",)), PartitionSpec("batch"))
empty = jax.jit(lambda: jax.numpy.zeros((4, 0)), out_shardings=sharding)()
for target in "numpy", "torch", "jax":
    assert np.asarray(convert(empty, target)).shape == (4, 0), target
for device in sharding, swapped, "cpu:1", "cpu:0":
    assert np.asarray(convert(empty, "jax", device)).shape == (4, 0), device

# A cast stays where the array is, and is checked where JAX lacks the dtype that was asked for.
batch = convert(np.array([1, 2**31], "uint32"), "jax", sharding)
single = jax.sharding.SingleDeviceSharding(second)
for device, wanted in (None, sharding), (swapped, swapped), ("cpu:1", single):
    assert convert(batch, "jax", device, dtypes={"uint32": "float32"}).sharding == wanted
    try:
        convert(batch, "jax", device, dtypes={"uint32": "int64"})
    except OverflowError as error:
        assert "2147483648 at [1]" in str(error)
    else:
        raise AssertionError("2**31 is not an int32")
loose = convert(convert(np.ones(2, "float32"), "jax"), "jax", dtypes={"float32": "int32"})
on_second = convert(np.ones(2, "int32"), "jax", second)
assert (loose + on_second).devices() == {second}  # it follows, as it was put nowhere on purpose
print("fine")
"""


def test_jax_with_two_devices(run_python):
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    flags = "--xla_force_host_platform_device_count=2"
    assert run_python(TWO_DEVICES, XLA_FLAGS=flags, JAX_PLATFORMS="cpu").endswith("fine\n")
