"""What a producer of DLPack is asked for, and when its memory is given back."""

from __future__ import annotations

import pytest
import torch

from arrayferry import convert, register_framework
from arrayferry._core import holds
from late_device.toy import Toy, ToyArray

pytestmark = pytest.mark.late


@pytest.fixture(autouse=True)
def _records():
    yield
    holds.release()
    ToyArray.records.clear()
    ToyArray.streams.clear()


@pytest.mark.parametrize("immutable", [True, False])
def test_it_is_asked_once_for_the_current_stream(immutable):
    register_framework(Toy(immutable=immutable))
    stream = torch.Stream("late:0")
    with stream:
        convert({"x": ToyArray([1, 2]), "y": ToyArray([3])}, "torch", "late:0")
    wanted = {"stream": stream.stream_id, "max_version": (1, 0)}
    assert ToyArray.records == [wanted, wanted]  # no dl_device, no copy=: both are made there


def test_memory_is_given_back_when_the_copy_is_done_or_at_once_if_nothing_was_copied(late):
    register_framework(Toy(immutable=True))
    convert(ToyArray([1, 2]), "torch", "late:0")
    assert "pending at its deleter" not in ToyArray.records[0]
    late.run_all()
    assert "pending at its deleter" not in ToyArray.records[0]  # nobody has asked
    convert(torch.ones(1, device="late"), "torch", "late:0")
    assert "pending at its deleter" in ToyArray.records[0]
    ToyArray.records.clear()
    register_framework(Toy(immutable=False), replace=True)
    source = ToyArray([1, 2])
    shared = convert(source, "torch", "late:0", copy=False)
    assert shared.data_ptr() == source.memory.address
    assert len(ToyArray.records) == 1
    del shared
    assert "pending at its deleter" in ToyArray.records[0]


def test_memory_that_never_changes_is_not_shared_as_writable():
    register_framework(Toy(immutable=True))
    with pytest.raises(ValueError, match="never change"):
        convert(ToyArray([1]), "torch", "late:0", copy=False)
    assert not ToyArray.records
