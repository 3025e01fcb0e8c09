"""The late device itself: it is late, it forgets nothing, and it shows what a missing wait or hold does."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch

pytestmark = pytest.mark.late

POISON = {"unwritten": 0xA5, "freed": 0xDB}


def poisoned(kind, count=4):
    return [POISON[kind]] * count


def late_bytes(values, **options):
    """Make a tensor of bytes on the device, which are written already."""
    tensor = torch.tensor(values, dtype=torch.uint8, device="late", **options)
    assert tensor.device.type == "late"
    return tensor


# ---- streams


def test_nothing_runs_until_it_is_told_to(late):
    x = torch.ones(4, dtype=torch.uint8, device="late")
    y = x + 1
    assert late.peek(y).tolist() == poisoned("unwritten")
    assert late.run(most=1) == 1
    assert late.peek(x).tolist() == [1] * 4
    assert late.peek(y).tolist() == poisoned("unwritten")
    late.run()
    assert late.peek(y).tolist() == [2] * 4
    assert late.counts()["waits"] == 0


def test_a_wait_of_the_host_runs_what_it_waits_for_and_nothing_else(late):
    first, second = torch.Stream("late"), torch.Stream("late")
    with first:
        x = torch.ones(4, dtype=torch.uint8, device="late")
    with second:
        y = torch.ones(4, dtype=torch.uint8, device="late")
    first.synchronize()
    assert late.peek(x).tolist() == [1] * 4
    assert late.peek(y).tolist() == poisoned("unwritten")
    assert late.counts()["waits"] == 1
    torch.accelerator.synchronize()
    assert late.peek(y).tolist() == [1] * 4
    assert late.counts()["waits"] == 2


@pytest.mark.parametrize("by", ["event", "stream"])
def test_streams_wait_for_each_other(late, by):
    first, second = torch.Stream("late"), torch.Stream("late")
    x = late_bytes([1, 1, 1, 1])
    with first:
        x += 1
        event = first.record_event()
        x += 1
    if by == "event":
        second.wait_event(event)
    else:
        second.wait_stream(first)
    with second:
        y = x + 1
    assert late.run(0, second.stream_id) == 0
    assert not event.query()
    late.run(0, first.stream_id, 2)
    assert event.query()
    assert late.run(0, second.stream_id) == (2 if by == "event" else 0)
    late.run_all()
    assert late.peek(y).tolist() == ([3] * 4 if by == "event" else [4] * 4)
    late.reset()
    second.wait_stream(first)
    with first:
        x += 1
    event = second.record_event()
    event.synchronize()  # runs what that stream waits for, but no more
    assert late.pending(0, first.stream_id) == 1
    assert late.counts()["waits"] == 1
    late.run_all()  # before `x` is freed


def test_an_event_that_was_never_recorded_has_passed(late):
    event = torch.Event("late")
    assert event.query()
    event.synchronize()
    assert late.counts()["waits"] == 0


def test_current_device_and_stream_belong_to_a_thread(late):
    stream, found = torch.Stream("late:1"), []

    def other():
        found.append((torch.accelerator.current_device_index(), torch.accelerator.current_stream().stream_id))

    with torch.accelerator.device_index(1), stream:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        other()
    other()
    assert found == [(0, 0), (1, stream.stream_id), (0, 0)]


def test_a_kernel_runs_on_its_tensors_device(late):
    x = torch.zeros(4, dtype=torch.uint8, device="late:1")
    x += 1
    assert (late.pending(0), late.pending(1)) == (0, 2)
    with torch.accelerator.device_index(1):
        y = torch.empty(4, dtype=torch.uint8, device="late")
    assert y.device.index == 1
    assert torch.empty(4, device="late").device.index == 0
    with pytest.raises(RuntimeError, match="no device 2"):
        torch.empty(4, device="late:2")


# ---- memory


def test_the_host_cannot_read_it():
    code = """
import sys; sys.path.insert(0, "tests")
import ctypes, torch
from late_device import device
device.library()
x = torch.ones(4, device="late"); torch.accelerator.synchronize()
print("before", flush=True)
ctypes.string_at(x.data_ptr(), 4)
print("after")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "before\n"
    assert done.returncode == -11
    with pytest.raises(TypeError, match="can't convert late"):
        torch.ones(4, device="late").numpy()


def test_memory_is_poisoned_in_the_order_of_the_stream_that_allocated_it(late):
    x = late_bytes([1, 2, 3, 4])
    other = torch.Stream("late")
    with other:
        late_reads = x.clone()
    same = x + 0
    del x  # queued on stream 0, after `same`
    late.run_all(but=((0, other.stream_id),))
    late.run_all()
    assert late.peek(same).tolist() == [1, 2, 3, 4]
    assert late.peek(late_reads).tolist() == poisoned("freed")
    assert late.counts()["faults"] == 1
    assert "its operand was freed" in late.faults()
    late.reset()


def test_record_stream_keeps_memory_until_that_stream_is_done(late):
    x = late_bytes([1, 2, 3, 4])
    other = torch.Stream("late")
    with other:
        reads = x.clone()
    x.record_stream(other)
    del x
    late.run_all(but=((0, other.stream_id),))
    late.run_all()
    assert late.peek(reads).tolist() == [1, 2, 3, 4]


def test_memory_is_never_used_twice(late):
    addresses = set()
    for _ in range(100):
        addresses.add(torch.empty(0, device="late").untyped_storage().data_ptr())
        addresses.add(torch.ones(3, device="late").data_ptr())
    assert len(addresses - {0}) >= 100


def test_pinned_memory_waits_for_the_copies_that_use_it(late):
    host = torch.tensor([1, 2, 3, 4], dtype=torch.uint8).pin_memory()
    assert host.is_pinned()
    assert host[1:].is_pinned()
    assert not torch.ones(4).is_pinned()
    x = host.to("late", non_blocking=True)
    del host
    late.run_all()
    assert late.peek(x).tolist() == [1, 2, 3, 4]
    assert late.counts()["waits"] == 0


def test_pinned_memory_that_is_written_too_early_shows(late):
    host = torch.tensor([1, 2, 3, 4], dtype=torch.uint8).pin_memory()
    x = host.to("late", non_blocking=True)
    host[:] = 9
    late.run_all()
    assert late.peek(x).tolist() == [9] * 4


# ---- copies


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("non_blocking", [False, True])
def test_copies_between_host_and_device_wait_unless_pinned_and_non_blocking(late, pinned, non_blocking):
    host = torch.tensor([1, 2, 3, 4], dtype=torch.uint8)
    host = host.pin_memory() if pinned else host
    waits = 0 if pinned and non_blocking else 1
    with late.counting() as during:
        x = host.to("late", non_blocking=non_blocking)
    assert (during["waits"], during["host to device"]) == (waits, 1)
    assert (late.peek(x).tolist() == [1, 2, 3, 4]) == bool(waits)
    late.run_all()
    back = torch.zeros(4, dtype=torch.uint8, pin_memory=pinned)
    with late.counting() as during:
        back.copy_(x, non_blocking=non_blocking)
    assert (during["waits"], during["device to host"]) == (waits, 1)
    assert (back.tolist() == [1, 2, 3, 4]) == bool(waits)
    late.run_all()
    assert back.tolist() == [1, 2, 3, 4]


def test_copies_between_devices_never_wait_but_the_streams_do(late):
    x = late_bytes([1, 2, 3, 4])
    x += 1
    y = x.to("late:1")
    z = y + 1
    x.zero_()
    assert late.counts()["waits"] == 1  # of `late_bytes`
    assert late.run(1) == 0
    late.run_all()
    assert late.peek(z).tolist() == [3, 4, 5, 6]


def test_no_elements_and_conjugate_views(late):
    empty = torch.zeros((0, 3), device="late")
    assert empty.cpu().shape == (0, 3)
    values = torch.tensor([1 + 2j, 3 - 4j])
    x = values.to("late")
    assert torch.equal(x.conj().cpu(), values.conj().resolve_conj())
    assert torch.equal(x.conj().resolve_conj().cpu(), values.conj().resolve_conj())
    assert torch.equal(x.conj().imag.cpu(), -values.imag)
    assert torch.equal(x.conj().to("late:1").cpu(), values.conj().resolve_conj())


# ---- operations

OPERATIONS = {
    "arithmetic": lambda x: (x * 2 + 1) / 3 - x**2,
    "in place": lambda x: x.clone().mul_(2).add_(1),
    "views": lambda x: x.t()[1:, ::2].reshape(-1).unsqueeze(0).expand(3, -1).contiguous(),
    "reductions": lambda x: torch.stack([x.sum(), x.mean(), x.std(), x.max(), x.amin()]),
    "along an axis": lambda x: torch.cat([x.max(1).values, x.argmax(0).float(), x.cumsum(1)[0]]),
    "masks": lambda x: x[x > 2],
    "where": lambda x: torch.where(x > 2, x, 0.5),
    "set items": lambda x: x.clone().index_fill_(0, torch.tensor([1], device=x.device), 7),
    "half": lambda x: x.bfloat16() * 2,
    "integers": lambda x: x.long().remainder(2),
    "bits": lambda x: x.view(torch.int32),
    "matrices": lambda x: torch.nn.functional.linear(x, x, x[:, 0]),
    "many": lambda x: torch._foreach_add([x, x], 1)[1],
    "scalars": lambda x: x * torch.tensor(2.0),
    "softmax": lambda x: torch.distributions.Categorical(logits=x).probs,
    "split": lambda x: torch.cat([part * i for i, part in enumerate(x.split(1))]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_give_what_the_cpu_gives(late, name):
    values = torch.arange(12.0).reshape(3, 4)
    found = OPERATIONS[name](values.to("late"))
    assert found.device.type == "late"
    assert torch.equal(found.cpu(), OPERATIONS[name](values))


def test_gradients(late):
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    there = torch.nn.Linear(3, 2)
    there.load_state_dict(layer.state_dict())
    there.to("late")
    values = torch.arange(6.0).reshape(2, 3)
    layer(values).square().sum().backward()
    with late.counting() as during:
        there(values.to("late").requires_grad_()).square().sum().backward()
    assert during["waits"] == 1  # for the values
    assert torch.equal(there.weight.grad.cpu(), layer.weight.grad)


def test_random_numbers_and_inference_mode(late):
    torch.manual_seed(3)
    wanted = torch.randn(5)
    torch.manual_seed(3)
    with torch.inference_mode():
        found = torch.randn(5, device="late")
    late.run_all()
    assert torch.equal(late.peek(found), wanted)


# ---- DLPack, memory of other frameworks, failures


def test_dlpack_shares_memory_and_orders_streams(late):
    x = late_bytes([1, 2, 3, 4])
    x += 1
    other = torch.Stream("late")
    with other:
        y = torch.from_dlpack(x)  # exported while this stream is the current one
        z = y.clone()
    assert y.data_ptr() == x.data_ptr()
    late.run_all()
    assert late.peek(z).tolist() == [2, 3, 4, 5]
    assert tuple(x.__dlpack_device__()) == (12, 0)
    on_second = torch.ones(2, device="late:1")
    with pytest.raises(BufferError, match="different device"):
        torch.from_dlpack(on_second)
    with torch.accelerator.device_index(1):
        assert torch.from_dlpack(on_second).device == on_second.device


def test_full_and_lost_devices_raise(late):
    late.library().late_limit_allocations(1)
    torch.empty(3, device="late")
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        torch.empty(3, device="late")
    late.reset()
    x = torch.ones(3, device="late")
    late.library().late_set_lost(1)
    with pytest.raises(RuntimeError, match="is lost"):
        x + 1


def test_capture_is_told(late):
    assert not torch.late.is_current_stream_capturing()
    late.library().late_set_capturing(1)
    assert torch.late.is_current_stream_capturing()


def test_torch_knows_it(late):
    assert torch.accelerator.current_accelerator() == torch.device("late")
    assert torch.accelerator.device_count() == 2
    assert torch.get_device_module("late") is torch.late
    assert torch.late.is_available()


def test_memory_of_another_framework_is_freed_in_the_order_of_its_stream(late):
    lib = late.library()
    theirs = lib.late_new_stream(0)
    address = lib.late_allocate(0, theirs, 4)
    lib.late_write(0, theirs, address, bytes([1, 2, 3, 4]), 4)
    lib.late_copy(0, 0, copy := lib.late_allocate(0, 0, 4), address, 4)
    lib.late_free(address)
    late.run(0, theirs)
    late.run(0, 0)
    assert late.counts()["faults"] == 1  # stream 0 did not wait, and nobody held the memory
    lib.late_free(copy)
    late.reset()
