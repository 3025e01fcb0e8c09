"""The stopwatch of benchmarks/: rivals take turns, and the best lap of each counts."""

from __future__ import annotations

import gc
from importlib import import_module
from pathlib import Path

import pytest


@pytest.fixture
def measure(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    return import_module("measure")


def test_rivals_take_turns_and_the_best_lap_counts(measure, monkeypatch):
    now, slow = [0.0], iter([9.0, 1.0, 5.0, 2.0, 9.0])
    order = []

    def step(name, seconds):
        order.append(name)
        now[0] += seconds

    monkeypatch.setattr(measure, "perf_counter", lambda: now[0])
    steps = {"a": lambda: step("a", next(slow)), "b": lambda: step("b", 3.0)}
    assert measure.measure(steps, laps=4, seconds=0.5) == {"a": 1.0, "b": 3.0}
    assert order == ["a", "b"] * 5  # once to warm up


def test_garbage_is_collected_again_after_a_lap(measure):
    with pytest.raises(ZeroDivisionError):
        measure.lap(lambda: 1 / 0, 0.1)
    assert gc.isenabled()
