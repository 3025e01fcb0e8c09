"""What may happen to memory while it is on its way, each under every schedule that could show it.

A scenario converts, lets the owner of the source do its worst, and then calls `stop`. That lets the stream
of the copy run some tasks, then all other streams theirs, and then the rest. It is repeated with one task
more, until the stream has run them all. `test_transfers.py` runs the scenarios; `test_reasons.py` shows what
each of them is for.
"""

from __future__ import annotations

import numpy as np
import torch

import arrayferry
from arrayferry import Converter, convert
from arrayferry._core import holds
from late_device import device as late
from late_device.dlpack_framework import Toy, ToyArray

SCENARIOS = {}

VALUES, OTHERS = [1, 2, 3, 4], [9, 9, 9, 9]


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def play(name):
    """Run a scenario under all schedules."""
    most, step = 0, 0
    while step <= most:
        late.reset()

        def stop(device, stream, then=lambda: None, step=step):
            nonlocal most
            most = max(most, late.pending(device, stream))
            done, progress = 0, 1
            while done < step and progress:  # the others run where it waits for them
                done += (progress := late.run(device, stream, step - done))
                progress = progress or late.run_all(but=((device, stream),))
            late.run_all(but=((device, stream),))
            then()
            late.run_all(but=((device, stream),))
            late.run_all()

        try:
            SCENARIOS[name](stop)
            late.run_all()
            assert not late.faults()
        finally:
            holds._holds.clear()
            ToyArray.streams.clear()
            ToyArray.records.clear()
            late.run_all()
        step += 1
    late.reset()


def toy(**options):
    """Register the made-up framework."""
    arrayferry.register_framework(Toy(**options), replace=True)


def on_device(values, device="late:0"):
    """Return a tensor of bytes that are there already."""
    return torch.tensor(values, dtype=torch.uint8).to(device)


def new_stream(device=0):
    return torch.Stream(f"late:{device}")


def next_step(stream):
    """Convert again, when some of what is held may be dropped."""
    with stream:
        convert([torch.zeros(2, device="late")], "torch", "late:0")


# ---- from other frameworks


@scenario
def source_that_never_changes_is_deleted(stop):
    toy(immutable=True)
    source = ToyArray(VALUES)
    with new_stream() as stream:
        result = convert({"x": source}, "torch", "late:0")["x"]
    assert late.counts()["waits"] == 0
    assert late.counts()["events"] == 1
    del source
    stop(0, stream.stream_id, then=lambda: next_step(stream))
    assert late.peek(result).tolist() == VALUES


@scenario
def source_is_overwritten_by_its_owner(stop):
    toy(immutable=False)
    source = ToyArray(VALUES)
    with new_stream() as stream:
        result = convert(source, "torch", "late:0")
    assert late.counts()["waits"] == 0
    source.write(OTHERS)
    del source
    stop(0, stream.stream_id)
    assert late.peek(result).tolist() == VALUES


@scenario
def source_of_an_owner_that_cannot_copy_is_waited_for(stop):
    toy(immutable=False, copies=False)
    source = ToyArray(VALUES)
    with new_stream() as stream:
        result = convert(source, "torch", "late:0")
    source.write(OTHERS)
    del source
    stop(0, stream.stream_id)
    assert late.peek(result).tolist() == VALUES


@scenario
def source_is_on_a_device_that_is_not_the_current_one(stop):
    toy(immutable=True)
    source = on_device(VALUES, "late:1")
    before = late.counts()["waits"]
    result = convert({"x": source}, "toy")["x"]
    assert late.counts()["waits"] == before
    source.fill_(9)
    stop(1, result.stream)
    del source
    assert result.peek() == VALUES


@scenario
def source_of_another_stream_is_copied_for_another_framework(stop):
    toy(immutable=True)
    with new_stream() as theirs:
        source = on_device(VALUES)
    with new_stream() as stream:
        stream.wait_stream(theirs)
        before = late.counts()["waits"]
        result = convert({"x": source}, "toy")["x"]
        assert late.counts()["waits"] == before
    del source
    stop(0, stream.stream_id, then=lambda: next_step(stream))
    assert result.peek() == VALUES


# ---- within torch


@scenario
def source_of_another_stream_is_deleted(stop):
    with new_stream() as theirs:
        source = on_device(VALUES)
    with new_stream() as stream:
        stream.wait_stream(theirs)
        before = late.counts()["waits"]
        result = convert([source], "torch", "late:0")[0]
        assert late.counts()["waits"] == before
    del source
    stop(0, stream.stream_id, then=lambda: next_step(stream))
    assert late.peek(result).tolist() == VALUES


@scenario
def source_is_on_another_device(stop):
    source = on_device(VALUES, "late:1")
    result = convert({"x": source}, "torch", "late:0")["x"]
    assert late.counts()["waits"] == 1  # of `on_device`
    source.fill_(9)
    del source
    stop(1, 0)
    assert late.peek(result).tolist() == VALUES


@scenario
def device_without_a_number_is_the_current_one(stop):
    to_current = Converter("torch", "late")
    with torch.accelerator.device_index(1):
        source = torch.tensor(VALUES, dtype=torch.uint8).to("late")
        results = [*to_current([np.uint8(VALUES), torch.tensor(VALUES), source])]
        assert Converter("torch", "late", copy=False)(source) is source
    assert {result.device.index for result in results} == {1}
    assert to_current(np.ones(1)).device.index == 0
    stop(1, 0)
    for result in results:
        assert late.peek(result).tolist() == VALUES


@scenario
def end_of_an_environment_waits_and_drops(stop):
    toy(immutable=True)
    with new_stream() as stream:
        convert(ToyArray(VALUES), "torch", "late:0")
    assert not ToyArray.records[0].keys() >= {"pending at its deleter"}
    holds.release()
    assert late.counts()["waits"] == 1
    assert late.pending(0, stream.stream_id) <= 1  # the memory of the result, which is freed
    assert "pending at its deleter" in ToyArray.records[0]
    stop(0, stream.stream_id)


# ---- from the host


@scenario
def host_memory_is_overwritten(stop):
    sources = {"x": np.uint8(VALUES), "y": torch.tensor(VALUES), "z": np.float64(VALUES)}
    results = convert(sources, "torch", "late:0")
    for source in sources.values():
        source[:] = 9
    again = convert(sources, "torch", "late:0")  # a step later, in pinned memory of its own
    counts = late.counts()
    assert (counts["waits"], counts["host to device"], counts["pinned allocations"]) == (0, 2, 2)
    stop(0, 0)
    for name in sources:
        assert late.peek(results[name]).tolist() == VALUES
        assert late.peek(again[name]).tolist() == OTHERS


@scenario
def device_is_far_behind(stop):
    for _ in range(67):
        convert(np.uint8(VALUES), "torch", "late:0")
    assert len(holds._holds) == 64
    assert late.counts()["waits"] == 3


# ---- to the host


@scenario
def host_reads_when_the_values_are_there(stop):
    source = on_device(VALUES) + 1
    before = late.counts()["waits"]
    results = [convert({"x": source, "y": [source]}, to, device) for to, device in HOSTS]
    assert late.counts()["waits"] == before + len(HOSTS)
    for result in results:
        for array in result["x"], result["y"][0]:
            assert np.asarray(array).tolist() == [2, 3, 4, 5]
    stop(0, 0)


HOSTS = [("numpy", None), ("torch", "cpu"), ("jax", "cpu")]
