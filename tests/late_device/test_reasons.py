"""Each wait, event, guard and hold is there for a reason: without it, a scenario fails."""

from __future__ import annotations

import pytest
import torch

from arrayferry import Converter
from arrayferry._core import holds, type_cache
from arrayferry._frameworks import _torch_devices
from arrayferry._frameworks import torch as torch_framework
from arrayferry.errors import FerryError
from late_device import device as late
from late_device.dlpack_framework import ToyArray
from late_device.scenarios import SCENARIOS, play

pytestmark = pytest.mark.late

REASONS = {}


def without(*scenarios):
    """Say which scenarios fail without something, which the function takes away."""

    def decorate(function):
        REASONS.update({f"{function.__name__}-{name}": (function, name) for name in scenarios})
        return function

    return decorate


@without(
    "source_that_never_changes_is_deleted",
    "source_of_another_stream_is_deleted",
    "source_of_another_stream_is_copied_for_another_framework",
)
def hold(patch):
    patch.setattr(holds.Hold, "__init__", _holds_nothing)


def _holds_nothing(self, is_done, synchronize, objects):
    self.is_done, self.synchronize = is_done, synchronize


def _holds_what_is_done(self, is_done, synchronize, objects):
    self.is_done, self.synchronize, self._objects = (lambda: True), synchronize, objects


@without("source_that_never_changes_is_deleted", "source_of_another_stream_is_deleted")
def looking_whether_the_event_has_passed(patch):
    patch.setattr(holds.Hold, "__init__", _holds_what_is_done)


@without("source_that_never_changes_is_deleted", "source_of_another_stream_is_deleted")
def recording_the_event_on_the_stream_of_the_copy(patch):
    def record(device):
        event = torch.Stream(device).record_event()
        return event.query, event.synchronize

    patch.setattr(_torch_devices, "record", record)


@without("source_that_never_changes_is_deleted", "source_of_another_stream_is_deleted")
def recording_the_event_after_the_copy(patch):
    early, copy_to = [], torch_framework.copy_to

    def copy_after_the_event(device, tensor, dtype):
        early.append(torch.accelerator.current_stream(tensor.device).record_event())
        return copy_to(device, tensor, dtype)

    patch.setattr(torch_framework, "copy_to", copy_after_the_event)
    patch.setattr(_torch_devices, "record", lambda device: (early[-1].query, early[-1].synchronize))


@without("source_that_never_changes_is_deleted")
def one_event_for_all(patch):
    def hold_each(tasks):
        for task in tasks * 2:
            holds.hold_sources([task])

    patch.setattr(_torch_devices, "hold_sources", hold_each)


@without("source_that_never_changes_is_deleted", "source_is_overwritten_by_its_owner")
def order_of_the_streams(patch):
    take = torch.from_dlpack

    def without_a_stream(array, **options):
        if isinstance(array, ToyArray):
            return take(array.__dlpack__(stream=-1))
        return take(array, **options)

    patch.setattr(torch, "from_dlpack", without_a_stream)


@without("source_is_overwritten_by_its_owner")
def copy_of_the_owner(patch):
    patch.setattr(ToyArray, "copy", lambda array: array)


@without("source_is_on_a_device_that_is_not_the_current_one")
def copy_by_torch(patch):
    patch.setattr(torch_framework, "copy_to", lambda device, tensor, dtype: tensor)


@without("source_is_on_a_device_that_is_not_the_current_one")
def guard(patch):
    patch.setattr(_torch_devices, "guard", lambda tensor: torch.no_grad())


@without("source_of_an_owner_that_cannot_copy_is_waited_for", "host_reads_when_the_values_are_there")
def wait(patch):
    patch.setattr(_torch_devices, "synchronize", lambda device: None)
    patch.setattr(holds, "release", lambda: None)


@without("source_that_never_changes_is_deleted", "source_of_another_stream_is_deleted")
def not_waiting_for_a_copy(patch):

    def waiting(tasks):
        holds.hold_sources(tasks)
        torch.accelerator.synchronize()

    patch.setattr(_torch_devices, "hold_sources", waiting)


@without("device_without_a_number_is_the_current_one")
def current_device(patch):
    def first(device):
        return torch.device(device.type, 0) if device.index is None and device.type != "cpu" else device

    patch.setattr(_torch_devices, "with_index", first)


@without("end_of_an_environment_waits_and_drops")
def waiting_at_the_end(patch):
    patch.setattr(holds, "release", lambda: holds._holds.clear())


@without("end_of_an_environment_waits_and_drops")
def dropping_at_the_end(patch):
    patch.setattr(holds, "release", lambda: [pending.synchronize() for pending in holds._holds])


@without("host_memory_is_overwritten")
def pinned_memory_of_its_own(patch):
    buffers, empty = {}, torch.empty

    def keep_buffer(size, *arguments, pin_memory=False, **options):
        if not pin_memory or size not in buffers:
            buffers[size] = empty(size, *arguments, pin_memory=pin_memory, **options)
        return buffers[size]

    patch.setattr(torch, "empty", keep_buffer)


@without("host_memory_is_overwritten")
def one_transfer(patch):
    complete = _torch_devices.complete_uploads
    patch.setattr(
        _torch_devices, "complete_uploads", lambda tasks: [complete([task]) for task in tasks] and None
    )


@without("host_memory_is_overwritten")
def pinning(patch):
    patch.setattr(_torch_devices, "can_pin", lambda device_type: False)


@without("host_memory_is_overwritten")
def sending_what_the_device_gets(patch):
    patch.setattr(_torch_devices, "complete_uploads", lambda uploads: None)


@without("host_reads_when_the_values_are_there")
def waiting_once(patch):
    complete = _torch_devices.complete_downloads
    patch.setattr(
        _torch_devices, "complete_downloads", lambda tasks: [complete([task]) for task in tasks] and None
    )


@without("device_is_far_behind")
def holding_what_is_sent(patch):
    patch.setattr(_torch_devices, "hold_sources", lambda tasks: None)


@without("device_is_far_behind")
def bound_of_what_is_pending(patch):
    patch.setattr(holds, "MOST", 1000)


@pytest.mark.parametrize("name", REASONS)
def test_it_is_needed(name, monkeypatch):
    take_away, scenario = REASONS[name]
    take_away(monkeypatch)
    Converter.__init__.__globals__["_remembered"].cache_clear()
    type_cache.clear_type_caches()
    failed = None
    try:
        play(scenario)
    except (AssertionError, FerryError) as error:
        failed = error
    finally:
        monkeypatch.undo()
        type_cache.clear_type_caches()
        late.reset()
    assert failed is not None


def test_every_scenario_has_one():
    assert {scenario for _, scenario in REASONS.values()} >= {*SCENARIOS} - NOTHING_TO_TAKE


NOTHING_TO_TAKE = {"source_is_on_another_device"}  # torch itself orders the streams of two devices
