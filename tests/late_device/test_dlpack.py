"""What a producer of DLPack is asked for, and when its memory is given back."""

from __future__ import annotations

import pytest
import torch

from arrayferry import convert, register_framework
from arrayferry._core import holds
from arrayferry.errors import SharingError, UnsupportedError
from late_device.dlpack_framework import Toy, ToyArray

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


FLOATS = ("float32", "complex64")

LAZY = {
    "trained": lambda z: z.real.requires_grad_(),
    "parameter": lambda z: torch.nn.Parameter(z.real),
    "conjugate": torch.conj,
    "negative": lambda z: z.conj().imag,
}


@pytest.mark.parametrize("name", LAZY)
def test_tensors_that_torch_does_not_export_as_they_are(late, name):
    register_framework(Toy(immutable=False, dtypes=FLOATS), replace=True)
    values = torch.tensor([1 + 2j, 3 - 1j])
    found = convert({"x": LAZY[name](values.to("late"))}, "toy")["x"]
    late.run_all()
    wanted = LAZY[name](values).detach().resolve_conj().resolve_neg()
    assert bytes(found.peek()) == wanted.contiguous().numpy().tobytes()


@pytest.mark.parametrize("name", LAZY)
def test_memory_that_has_other_values_is_not_shared(name):
    register_framework(Toy(immutable=False, dtypes=FLOATS), replace=True)
    source = LAZY[name](torch.tensor([1 + 2j, 3 - 1j]).to("late"))
    if name in ("trained", "parameter"):
        assert convert(source, "toy", copy=False).memory.address == source.data_ptr()
    else:
        with pytest.raises(SharingError, match=r'value\["x"\]: .*other values'):
            convert({"x": source}, "toy", copy=False)


def test_a_tensor_without_values_is_refused_as_everywhere():
    register_framework(Toy(immutable=False), replace=True)
    tensor = torch.zeros(3, dtype=torch.uint8, device="late")
    tensor.untyped_storage().resize_(0)
    with pytest.raises(UnsupportedError, match=r"^value\[0\]: there are no values behind this tensor"):
        convert([tensor], "toy")
