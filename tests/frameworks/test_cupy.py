"""CuPy without a GPU: a module that looks like it, whose two devices are on the host."""

from __future__ import annotations

import gc
import sys
import types
import weakref

import numpy as np
import pytest

from arrayferry import Converter, Framework, Source, Target, convert, register_framework
from arrayferry._core import holds
from arrayferry.errors import DeviceError, SharingError
from arrayferry.testing import bits, check_framework, edges

ENTERED, CALLS = [0], []


class Device:
    """A GPU; the one that was entered last is the current one."""

    def __init__(self, number=None):
        self.id = ENTERED[-1] if number is None else number

    def __enter__(self):
        ENTERED.append(self.id)
        return self

    def __exit__(self, *error):
        ENTERED.pop()

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self):
        return self.id


class GPUArray:
    """An array on the device that was the current one when it was made."""

    def __init__(self, values):
        self.values, self.dtype, self.shape, self.device = values, values.dtype, values.shape, Device()

    def get(self):
        return self.values.copy()

    def copy(self):
        return GPUArray(self.values.copy())

    def __setitem__(self, key, new):
        self.values[key] = new.values

    def __dlpack_device__(self):
        return (2, self.device.id)


class OfNumba:
    """An array on a GPU of a library that has no DLPack."""

    def __init__(self, values):
        self.values, self.dtype, self.shape = values, values.dtype, values.shape

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (0, False), "version": 3}


class Event:
    """An event on the current device's stream, which has not passed until it is waited for."""

    def __init__(self, calls):
        self.number, self.done, self._calls = ENTERED[-1], False, calls
        calls.append(f"record on {self.number}")

    def synchronize(self):
        self.done = True
        self._calls.append(f"wait for {self.number}")


@pytest.fixture
def calls(monkeypatch):
    """Put the module where CuPy would be, and return what is asked of its streams."""
    if "cupy" in sys.modules:
        pytest.skip("CuPy is here")
    calls = []

    def array(values, dtype=None, copy=True, order="C"):
        CALLS.append(f"copy on {ENTERED[-1]}")
        return GPUArray(np.array(getattr(values, "values", values), dtype=dtype, order=order))

    stream = types.SimpleNamespace(
        record=lambda: Event(calls),
        wait_event=lambda event: calls.append(f"{ENTERED[-1]} waits for {event.number}"),
    )
    cuda = types.SimpleNamespace(
        Device=Device,
        get_current_stream=lambda: stream,
        runtime=types.SimpleNamespace(getDeviceCount=lambda: 2),
    )
    module = types.ModuleType("cupy")
    vars(module).update(ndarray=GPUArray, array=array, cuda=cuda, __version__="0")
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr("arrayferry._frameworks.cupy.cupy", module)
    yield calls
    holds.release()


@pytest.mark.usefixtures("calls")
def test_it_conforms():
    check_framework("cupy")


def test_arrays_are_on_the_device_that_was_asked_for(calls):
    for device, number in (None, 0), ("cuda", 0), ("cuda:1", 1), (1, 1), (Device(1), 1):
        result = convert(edges("float32"), "cupy", device)
        assert result.device == Device(number)
    assert not calls  # each is in the order of its stream
    with Device(1):
        assert Converter("cupy", "cuda").device == Device(1)


@pytest.mark.usefixtures("calls")
def test_an_object_with_the_cuda_array_interface_never_leaves_its_device(monkeypatch):
    monkeypatch.setattr(sys.modules["cupy"], "asarray", lambda array: GPUArray(array.values), raising=False)
    monkeypatch.setattr(sys.modules["cupy"], "from_dlpack", lambda array: array, raising=False)
    source = OfNumba(edges("float32"))
    assert convert(source, "cupy", copy=False).values is source.values
    copied = convert({"x": source}, "cupy")["x"]
    assert type(copied) is GPUArray
    assert not np.shares_memory(copied.values, source.values)
    assert bits(convert(source, "numpy")) == bits(source.values)


def test_copies_on_a_device_need_one_event_and_no_wait(calls):
    there = convert({"x": edges("float32"), "y": edges("float32")}, "cupy", "cuda:1")
    assert convert(there, "cupy")["x"].device == Device(1)  # it stays where it is
    assert calls == ["record on 1"]
    calls.clear()
    assert convert(there, "cupy", "cuda:0")["x"].device == Device(0)
    assert calls == [*["record on 1", "0 waits for 1"] * 2, "record on 0"]


def test_what_copies_read_is_held_until_the_event(calls):
    source = convert(edges("float32"), "cupy")
    alive = weakref.ref(source)
    convert(source, "cupy")
    del source
    gc.collect()
    assert alive() is not None
    holds.release()
    assert alive() is None
    assert calls == ["record on 0", "wait for 0"]


class Peer:
    """An array of another framework on the same GPU."""

    dtype, shape = np.dtype("float32"), (3,)

    def __init__(self, memory):
        self.memory = memory


class Peers(Framework):
    """That framework, which reads what it is given on the device that is the current one."""

    name, modules, arrays = "peers", (__name__,), (f"{__name__}:Peer",)

    def source(self, cls):
        return Source(read=lambda array: array.memory.get())

    def target(self, device):
        def alias(array):
            CALLS.append(f"export from {ENTERED[-1]}")
            return Peer(array)

        return Target(
            take=Peer,
            dtypes=lambda: frozenset({"float32"}),
            alias=alias,
            within=lambda array, dtype: Peer(array.memory.copy()),
            can_alias=lambda device_type: device_type == 2,
        )


@pytest.mark.usefixtures("calls")
def test_its_owner_copies_it_on_its_own_device_before_another_framework_reads_it():
    register_framework(Peers(), replace=True)
    there = convert(np.ones(3, np.float32), "cupy", "cuda:1")
    CALLS.clear()
    found = convert(there, "peers")
    there.values[:] = 9
    assert found.memory.values.tolist() == [1, 1, 1]
    assert CALLS[:2] == ["copy on 1", "export from 1"]
    shared = convert(there, "peers", copy=False)
    assert shared.memory is there
    assert ENTERED == [0]


@pytest.mark.usefixtures("calls")
def test_memory_is_shared_on_its_own_device_only():
    there = convert(edges("float32"), "cupy", "cuda:1")
    assert convert(there, "cupy", copy=False) is there
    assert convert(there, "cupy", "cuda:1", copy=False) is there
    for value, target, device in (
        (there, "cupy", "cuda:0"),
        (there, "numpy", None),
        (np.ones(2), "cupy", None),
    ):
        with pytest.raises(SharingError):
            convert(value, target, device, copy=False)


def test_devices_that_are_not_there(calls, monkeypatch):
    with pytest.raises(DeviceError, match=r"cupy has no device 'cuda:2' here\nHint: .*cuda:0, cuda:1"):
        Converter("cupy", "cuda:2")

    def no_driver():
        raise RuntimeError("cudaErrorInsufficientDriver")

    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "getDeviceCount", no_driver)
    with pytest.raises(DeviceError, match="the devices here are: none"):
        Converter("cupy", "cuda")
