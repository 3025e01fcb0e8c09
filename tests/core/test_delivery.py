"""Devices that can be recorded, targets without values, and copies that are waited for."""

from __future__ import annotations

import gc
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

import arrayferry
from arrayferry import Source, Target
from arrayferry._core import containers, convert, holds, walk
from arrayferry._core.framework import Deferred
from arrayferry._core.speedups import speedups
from arrayferry.errors import DeviceError, TransferError, UnsupportedError
from helpers.frameworks import FakeFramework

# ---- torch


def test_the_alias_of_another_frameworks_memory_dies_after_the_copy_is_done(monkeypatch):
    torch = pytest.importorskip("torch")
    from arrayferry._frameworks import torch as torch_framework

    order, copy_to = [], torch_framework.copy_to

    def copy_later(*arguments):
        return Deferred(copy_to(*arguments), lambda tasks: order.extend(tasks), "held")

    class Elsewhere:
        """An array on a device that NumPy cannot see, whose deleter says when it runs."""

        shape, dtype = (3,), np.dtype("float32")

        def __init__(self):
            self.values = np.arange(3, dtype="float32")

        def __dlpack__(self, **options):
            exported = self.values.copy()
            weakref.finalize(exported, order.append, "deleted")
            return exported.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    source = Source(read=lambda array: pytest.fail("it is not on the host"), on_host=lambda array: False)
    arrayferry.register_framework(
        FakeFramework("elsewhere", arrays=(f"{__name__}:Elsewhere",), source=source)
    )
    monkeypatch.setitem(globals(), "Elsewhere", Elsewhere)
    monkeypatch.setattr(torch_framework, "copy_to", copy_later)
    monkeypatch.setattr(holds, "release", lambda: order.append("waited"))
    found = arrayferry.convert(Elsewhere(), "torch")
    gc.collect()
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [0, 1, 2]
    assert order == ["held", "waited", "deleted"]


class Remote:
    """An array on a device of a made-up framework, which exports it by DLPack, or fails to."""

    shape, dtype = (2,), np.dtype("float32")

    def __init__(self, device_type=1, error=None):
        self.device_type, self.error, self.values = device_type, error, np.ones(2, "float32")

    def __dlpack__(self, **options):
        if self.error is not None:
            raise self.error
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        if self.device_type is None:
            raise BufferError("DLPack has no such device")
        return (self.device_type, 0)


@pytest.fixture
def calls():
    """Register the framework of `Remote`, and return the list of what is asked of it."""
    calls = []

    def read(array):
        calls.append("host")
        return array.values

    @contextmanager
    def guard(array):
        calls.append("enter")
        yield
        calls.append("leave")

    source = Source(read=read, on_host=lambda array: False, guard=guard)
    target = Target(
        take=lambda array: pytest.fail("it is not a target"), dtypes=lambda: frozenset({"float32"})
    )
    remote = FakeFramework("remote", arrays=(f"{__name__}:Remote",), source=source, target=target)
    arrayferry.register_framework(remote)
    return calls


READERS = [name for name in ("torch", "jax") if name in arrayferry.frameworks()]


@pytest.mark.parametrize("target", READERS)
@pytest.mark.parametrize(
    "error",
    [RuntimeError("out of memory"), BufferError("busy"), TypeError("odd"), ValueError("bad")],
    ids=repr,
)
def test_transfer_that_fails_is_an_error_and_takes_no_other_way(calls, target, error):
    with pytest.raises(TransferError, match=rf'^value\["x"\]: .*{error}'):
        arrayferry.convert({"x": Remote(error=error)}, target)
    assert "host" not in calls
    with pytest.raises(MemoryError):
        arrayferry.convert({"x": Remote(error=MemoryError())}, target)
    assert "host" not in calls


@pytest.mark.parametrize("target", READERS)
@pytest.mark.parametrize("device_type", [1, 4, None], ids=["shared", "OpenCL", "unknown to DLPack"])
def test_route_is_decided_before_and_explained(calls, target, device_type):
    by_dlpack = device_type == 1
    leaf = arrayferry.explain(Remote(device_type), target).leaves[0]
    assert leaf.route == ("remote", "dlpack" if by_dlpack else "numpy", target)
    calls.clear()
    assert arrayferry.convert(Remote(device_type), target).tolist() == [1, 1]
    assert calls == (["enter", "leave"] if by_dlpack else ["host"])  # exported from its own device


@pytest.mark.skipif("jax" not in READERS, reason="needs JAX")
def test_route_of_a_cast_that_must_be_checked_is_the_host(calls):
    options = {"dtypes": {"float32": "int64"}}
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False):
        assert arrayferry.convert(Remote(), "jax", **options).dtype == "int32"
        assert calls == ["host"]
        half = Remote()
        half.values /= 2
        with pytest.raises(OverflowError, match=r"0\.5 at"):
            arrayferry.convert(half, "jax", **options)


class Ring:
    """An array of a framework whose second device has no float64, as torch's MPS."""

    def __init__(self, values, device=None):
        self.values, self.dtype, self.device = values, values.dtype, device


def test_device_that_lacks_a_dtype_narrows_it_checked():
    def target(device):
        narrow = {"float32", "int32"}
        dtypes = frozenset(narrow if device == "small" else narrow | {"float64", "int64"})
        return Target(
            take=lambda array: Ring(array, device),
            dtypes=lambda: dtypes,
            within=lambda array, dtype: Ring(array.values.astype(dtype or array.dtype), device),
        )

    source = Source(read=lambda array: array.values, device_of=lambda array: array.device)
    ring = FakeFramework(
        "ring", arrays=(f"{__name__}:Ring",), source=source, target=target, find_device=lambda spec: spec
    )
    arrayferry.register_framework(ring)
    for values, dtype in [([0.1, np.inf], "float32"), ([2**31 - 1], "int32")]:
        found = arrayferry.convert(Ring(np.array(values)), "ring", "small")
        assert (found.dtype, found.device) == (dtype, "small")
    for lost in (1e300, 2**31):
        with pytest.raises(OverflowError, match=r'value\["x"\]: .* does not fit'):
            arrayferry.convert({"x": Ring(np.array([lost]))}, "ring", "small")
        assert arrayferry.convert(Ring(np.array([lost])), "ring").values == [lost]


@pytest.mark.skipif("torch" not in READERS, reason="needs torch")
def test_device_without_an_index_is_the_current_one(monkeypatch):
    import torch

    from arrayferry._frameworks import torch as ours

    class On:
        """What `is_on` asks of a tensor."""

        def __init__(self, device):
            self.device = torch.device(device)

    monkeypatch.setattr(ours, "_refuse_if_no_values", lambda tensor: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    for device, there in ("cuda", "cuda:1"), ("cuda:0", "cuda:0"):
        assert ours.is_on(torch.device(device), On(there))
    for device, elsewhere in ("cuda", "cuda:0"), ("cuda:0", "cuda:1"), ("cuda", "cpu"):
        assert not ours.is_on(torch.device(device), On(elsewhere))
    assert ours.is_on(None, On("cuda:0"))


def test_a_mode_without_values_is_refused_as_a_target():
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    converter = arrayferry.Converter("torch")
    calls = [
        lambda: converter.take(np.zeros(3)),
        lambda: converter(np.zeros(3)),
        lambda: converter({"x": [1.5]}),
        lambda: converter(np.zeros(3, ">f4")),
        lambda: arrayferry.Converter("torch", "cpu")(np.zeros(3)),
    ]
    for call in calls:
        with FakeTensorMode(), pytest.raises(UnsupportedError, match="no values"):
            call()
    assert type(converter(np.zeros(3))) is torch.Tensor


# ---- JAX


def test_every_device_and_sharding_is_recorded(run_python):
    pytest.importorskip("jax")
    code = """
import copy, json, pickle
from functools import partial
import gymnasium as gym, jax, numpy as np, torch
from gymnasium.envs.registration import EnvSpec
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding
import arrayferry
devices = jax.devices()
two = Mesh(np.array(devices).reshape(2, 2), ("env", "model"))
one = Mesh(np.array(devices[::-1]), ("env",))
single = [devices[2], "cpu:3", SingleDeviceSharding(devices[1]), NamedSharding(one, P())]
for device in single:
    env = arrayferry.wrap(gym.make("CartPole-v1"), "jax", device)
    wanted = env.reset(seed=1)[0].sharding
    spec = EnvSpec.from_json(env.spec.to_json())
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env), gym.make(spec)):
        assert twin.reset(seed=1)[0].sharding == wanted, (device, wanted)
many = [NamedSharding(two, P(("env", "model"))), NamedSharding(two, P("model")), NamedSharding(one, P("env"))]
for device in many:
    vector = gym.vector.SyncVectorEnv([partial(gym.make, "CartPole-v1")] * 4)
    envs = arrayferry.wrap(vector, "jax", device)
    wanted = envs.reset(seed=1)[0].sharding
    for twin in (pickle.loads(pickle.dumps(envs)), copy.deepcopy(envs)):
        assert twin.reset(seed=1)[0].sharding == wanted, (device, wanted)
    json.dumps(arrayferry.Converter("jax", device).device_name)
for sharding in (many[0], many[1], SingleDeviceSharding(devices[0])):
    recorded = arrayferry.Converter("jax", sharding).device_name
    elsewhere = recorded | {"devices": [f"cpu:{i + 4}" for i in range(len(recorded["devices"]))]}
    assert arrayferry.Converter("jax", elsewhere).device == sharding
for env_xp, device in (("jax", devices[1]), ("torch", torch.device("cpu"))):
    env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy", env_xp=env_xp, env_device=device)
    assert str(device.platform if hasattr(device, "platform") else device) in env.spec.to_json()
    pickle.loads(pickle.dumps(env))
print("fine")
"""
    pytest.importorskip("torch")
    flags = "--xla_force_host_platform_device_count=4"
    assert run_python(code, XLA_FLAGS=flags) == "fine\n"


def test_a_sharding_over_more_devices_than_there_are_says_both_numbers():
    pytest.importorskip("jax")
    data = {
        "mesh": {"env": 99},
        "spec": ["env"],
        "devices": [f"cpu:{i}" for i in range(99)],
        "memory_kind": None,
    }
    with pytest.raises(DeviceError, match=r"99 devices .* only \d+ are here"):
        arrayferry.Converter("jax", data)


# ---- arrays of libraries that nobody registered


class Nullable:
    """An array without a dtype: by DLPack it is exact, or refused; by `__array__`, nulls become NaN."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        if None in self.values:
            raise TypeError("nulls")
        return np.array(self.values).__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)

    def __array__(self, *args, **kwargs):
        return np.array([np.nan if value is None else value for value in self.values])


def test_an_array_without_a_dtype_is_exact_or_refused():
    found = arrayferry.convert(Nullable([1, 2]), "numpy")
    assert (found.dtype, found.tolist()) == (np.int64, [1, 2])
    with pytest.raises(UnsupportedError):
        arrayferry.convert([Nullable([1, None])], "numpy")


def test_a_lazy_array_is_computed_before_its_source_changes():
    dask = pytest.importorskip("dask.array")
    buffer = np.zeros(4)
    found = arrayferry.convert(dask.from_array(buffer, name=False), "dask")
    buffer[:] = 7
    assert found.compute().tolist() == [0] * 4


# ---- transfers that are completed together

WALKERS = [walk.Walker, *([] if speedups is None else [convert.Walker])]


@pytest.mark.parametrize("walker", WALKERS, ids=["Python", "C"][: len(WALKERS)])
@pytest.mark.parametrize("slots", [1, 2], ids=["convert", "unpack"])
@pytest.mark.parametrize("last", [1.5, 2, None], ids=["completed", "refused", "left"])
def test_transfers_that_fail_hide_nothing_and_leave_none_behind(walker, slots, last):
    """What was sent or held for other devices is completed, and the first error is the one that is raised."""
    finished = []

    def transfer(kind):
        def finish(tasks):
            finished.append((kind, tasks))
            raise RuntimeError(f"{kind} failed")

        return lambda leaf, owned: Deferred(leaf, finish, leaf)

    def refuse(leaf, owned):
        raise UnsupportedError("it is refused", "do not")

    handlers = {str: transfer("text"), bytes: transfer("bytes"), float: transfer("float"), int: refuse}
    handlers |= {list: containers.LIST, type(None): walk.unchanged}
    names = ["first", "second"][:slots]
    walker = walker(handlers, [walk.Slot(name) for name in names])
    value = ["a", b"b", "c", last]
    error, message = (UnsupportedError, "it is refused") if last == 2 else (TransferError, "text failed")
    with pytest.raises(error, match=rf"^{names[-1]}.*{message}" if last == 2 else message):
        walker.convert([value]) if slots == 1 else walker.unpack([("", value)])
    texts = ["a", "c"] if slots == 1 else ["", "a", "c"]
    expected = [("text", texts), ("bytes", [b"b"]), *([("float", [1.5])] if last == 1.5 else [])]
    assert sorted(finished) == sorted(expected)
