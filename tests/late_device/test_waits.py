"""How often the host waits in one step of 64 rows: a Dict of three, rewards and dones out, an action in."""

from __future__ import annotations

import pytest
import torch

import arrayferry
from arrayferry import wrap
from arrayferry._core import convert
from late_device.envs import Rows, policy

pytestmark = pytest.mark.late

# From, to, and how many there are of: waits, transfers to the device, from it, events.
STEPS = [
    ("late:0", "late:0", 0, 0, 0, 2),
    ("late:0", "late:1", 0, 0, 0, 2),
    ("numpy", "late:0", 1, 1, 1, 1),  # it waits for the action
    ("late:0", "numpy", 1, 1, 6, 1),
    ("late:0", "cpu", 1, 1, 6, 1),
    ("late:1", "jax", 1, 1, 6, 1),
]


@pytest.fixture(params=["C", "Python"])
def _walk(request, monkeypatch):
    if request.param == "Python":
        monkeypatch.setattr(convert, "speedups", None)


@pytest.mark.usefixtures("_walk")
@pytest.mark.parametrize(("source", "target", "waits", "up", "down", "events"), STEPS)
def test_waits_of_a_step(late, source, target, waits, up, down, events):
    is_torch = target.startswith("late") or target == "cpu"
    where = ("torch", target) if is_torch else (target, None)
    options = {"env_xp": "numpy"} if source == "numpy" else {"env_xp": "torch", "env_device": source}
    env = wrap(Rows(source), *where, **options)
    env.reset()
    action = policy(target if is_torch else "numpy")
    env.step(action)
    late.run_all()
    with late.counting() as during:
        obs, *rest, _ = env.step(action)
    found = during["waits"], during["host to device"], during["device to host"], during["events"]
    assert found == (waits, up, down, events)
    late.run_all()
    for array in (*obs.values(), rest[0]):
        array = late.peek(array) if target.startswith("late") else array
        assert (array == 2).all()


def test_sharing_does_nothing(late):
    env = wrap(Rows("late:0"), "torch", "late:0", env_xp="torch", env_device="late:0", copy=False)
    env.reset()
    action = policy("late:0")
    with late.counting() as during:
        obs, *_ = env.step(action)
    with late.counting() as bare:
        env.unwrapped.step(action)
    assert during == bare
    assert obs["camera"] is env.unwrapped.obs["camera"]


def test_waits_do_not_grow_with_the_leaves(late):
    for count in 1, 10, 100:
        leaves = [torch.ones(3, device="late") for _ in range(count)]
        with late.counting() as during:
            arrayferry.convert(leaves, "torch", "late:0")
        assert (during["waits"], during["events"]) == (0, 1)
        with late.counting() as during:
            arrays = arrayferry.convert(leaves, "numpy")
        assert (during["waits"], during["device to host"]) == (1, count)
        with late.counting() as during:
            arrayferry.convert(arrays, "torch", "late:0")
        assert (during["waits"], during["host to device"]) == (0, 1)
