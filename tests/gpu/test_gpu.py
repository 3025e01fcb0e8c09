"""The goals of tests/late_device on real CUDA: nobody waits, nothing is read too early, too late or torn.

Work is made late by `torch.cuda._sleep`, which keeps a stream busy. Waits are counted by replacing what
waits, and torch itself raises where it would wait: `torch.cuda.set_sync_debug_mode("error")`. `make test-gpu`
runs them a second time with `TORCH_CUDA_SANITIZER=1`, which watches what each stream reads and writes.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager

import numpy as np
import pytest

from arrayferry import convert, explain
from arrayferry._core import holds

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use"),
]

LATE = 100_000_000  # cycles: some tens of milliseconds


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    torch.cuda.synchronize()
    holds.release()


@contextmanager
def no_wait():
    """Make torch raise where the host would wait, and count no wait of ours."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@contextmanager
def counting(monkeypatch):
    """Count how often the host waits for a stream or an event."""
    waits = []
    for cls in torch.cuda.Stream, torch.cuda.Event:
        wait = cls.synchronize
        monkeypatch.setattr(cls, "synchronize", lambda self, wait=wait: waits.append(wait(self)))
    yield waits
    monkeypatch.undo()


def leaves(count=6):
    return {str(i): torch.arange(1000.0, device="cuda") + i for i in range(count)}


def check(found, count=6):
    for i in range(count):
        assert torch.equal(torch.as_tensor(found[str(i)]).cpu(), torch.arange(1000.0) + i)


def test_device_to_device():
    source = leaves()
    torch.cuda._sleep(LATE)
    with no_wait():
        found = convert(source, "torch", "cuda")
    for tensor in source.values():
        tensor.zero_()
    check(found)


def test_source_of_another_stream_is_deleted():
    theirs, ours = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(theirs):
        source = leaves()
    with torch.cuda.stream(ours):
        ours.wait_stream(theirs)
        torch.cuda._sleep(LATE)
        with no_wait():
            found = convert(source, "torch", "cuda")
    del source
    gc.collect()
    with torch.cuda.stream(theirs):  # which may have that memory again
        again = [torch.full((1000,), -1.0, device="cuda") for _ in range(50)]
    ours.synchronize()
    check(found)
    del again


def test_host_to_device():
    source = {name: tensor.cpu().numpy() for name, tensor in leaves().items()}
    torch.cuda.synchronize()
    torch.cuda._sleep(LATE)
    with no_wait():
        found = convert(source, "torch", "cuda")
    for array in source.values():
        array[:] = -1
    check(found)


def test_device_to_host(monkeypatch):
    source = leaves()
    torch.cuda._sleep(LATE)
    with counting(monkeypatch) as waits:
        found = convert(source, "numpy")
    assert len(waits) == 1
    check(found)


def test_a_full_device_is_an_error_with_a_path():
    total = torch.cuda.get_device_properties(0).total_memory
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (total * 2,), (0,))
    with pytest.raises(BufferError, match=r'^value\["x"\]'):
        convert({"x": huge}, "torch", "cuda")


def test_graph_capture_is_refused():
    graph, x = torch.cuda.CUDAGraph(), torch.ones(3, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph.capture_begin()
        try:
            with pytest.raises(TypeError, match="a graph is being captured"):
                convert(x, "torch", "cuda")
        finally:
            x.add_(1)
            graph.capture_end()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_devices():
    source = {name: tensor.to("cuda:1") for name, tensor in leaves().items()}
    with no_wait():
        found = convert(source, "torch", "cuda:0")
    for tensor in source.values():
        tensor.zero_()
    check(found)


# ---- other frameworks on the same GPU


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("needs a GPU that JAX can use")
    return jax


def test_jax_to_torch(jax):
    source = {str(i): jax.numpy.arange(1000.0) + i for i in range(6)}
    assert explain(source, "torch", device="cuda").leaves[0].route == ("jax", "dlpack", "torch")
    torch.cuda._sleep(LATE)
    with no_wait():
        found = convert(source, "torch", "cuda")
    for array in source.values():
        array.delete()
    [jax.numpy.full(1000, -1.0) for _ in range(50)]  # which may have that memory again
    check(found)


def test_torch_to_jax(jax):
    source = leaves()
    torch.cuda._sleep(LATE)
    with no_wait():
        found = convert(source, "jax")
    for tensor in source.values():
        tensor.zero_()
    del source
    [torch.full((1000,), -1.0, device="cuda") for _ in range(50)]
    check({name: np.asarray(array) for name, array in found.items()})


def test_jax_to_numpy(jax):
    found = convert({str(i): jax.numpy.arange(1000.0) + i for i in range(6)}, "numpy")
    check(found)
    assert all(array.flags.writeable and array.flags.owndata for array in found.values())


@pytest.mark.parametrize("name", ["cupy", "warp"])
def test_other_frameworks_there_and_back(name):
    pytest.importorskip(name)
    source = leaves()
    torch.cuda._sleep(LATE)
    there = convert(source, name, "cuda:0")
    for tensor in source.values():
        tensor.zero_()
    found = convert(there, "torch", "cuda")
    del there
    check(found)
