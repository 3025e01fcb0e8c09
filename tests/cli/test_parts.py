"""The parts: measuring, pairs and rivals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import arrayferry
from arrayferry.cli import measure
from arrayferry.cli.pairs import look_at
from arrayferry.cli.rivals import BARE, BY_HAND, OURS, rivals, trouble_by_hand, trouble_with_theirs

HERE = str(Path(__file__).parent)


def test_rivals_take_turns_and_the_fastest_lap_counts(monkeypatch):
    now, slow = [0.0], iter([9.0, 1.0, 5.0, 2.0, 9.0])
    order = []

    def step(name, seconds):
        order.append(name)
        now[0] += seconds

    monkeypatch.setattr(measure, "perf_counter", lambda: now[0])
    steps = {"a": lambda: step("a", next(slow)), "b": lambda: step("b", 3.0)}
    laps = []
    best = measure.measure(steps, laps=4, seconds=0.5, after_lap=lambda: laps.append(1))
    assert best == {"a": 1.0, "b": 3.0}
    assert order == ["a", "b"] * 5  # once to warm up
    assert len(laps) == 8


def test_steps_that_come_again_are_compared_with_themselves():
    noise = iter([[9.0] * 8, [9.0] * 8, [1.0, 5.0] * 4, [4.0] * 8, [7.0, 2.0] * 4, [6.0, 3.0] * 4])
    asked = []

    def trip(steps):
        asked.append(steps)
        return next(noise)

    laps = []
    best = measure.replay({"a": trip, "b": trip}, 2, seconds=1.0, after_lap=lambda: laps.append(1))
    assert best == {"a": 1.5, "b": 3.5}
    assert (asked, len(laps)) == ([8] * 6, 4)


def test_trips_are_longer_where_steps_are_short():
    asked = []
    measure.replay({"a": lambda steps: asked.append(steps) or [0.001] * steps}, 2, seconds=0.1)
    assert asked == [8, 100, 100]


def test_garbage_is_collected_again_after_a_lap():
    import gc

    with pytest.raises(ZeroDivisionError):
        measure.lap(lambda: 1 / 0, 0.1)
    assert gc.isenabled()


def test_every_pair_is_looked_at(pair, monkeypatch):
    monkeypatch.setattr("arrayferry.cli.pairs._LAPS", 1)
    monkeypatch.setattr("arrayferry.cli.pairs._SECONDS", 0.0)
    monkeypatch.setattr("arrayferry.cli.pairs.measure", lambda *_: {"small": 1e-6, "large": 2.0**-20})
    source, target = pair
    found = look_at(source, target)
    assert (found.source, found.target, found.problem) == (source, target, "")
    assert (found.route[0], found.route[-1]) == (source, target)
    assert found.fresh in ("taken over", "copied")
    assert found.shares in ("yes", "no", "if aligned")
    assert found.bandwidth == 2.0**40


def test_numpy_is_taken_over_and_shared():
    found = look_at("numpy", "numpy")
    assert (found.fresh, found.shares, found.route) == ("taken over", "yes", ("numpy", "numpy"))


def test_rivals_step(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    trips = rivals("some_envs:Habits-v0", None, "numpy", without=["Gymnasium's wrapper"])
    assert list(trips) == [BARE, BY_HAND, OURS]
    for trip in trips.values():
        assert len(trip(100)) == 100


@pytest.mark.skipif("torch" not in arrayferry.frameworks(), reason="torch is not installed")
def test_a_rival_may_die_without_us(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", HERE, prepend=os.pathsep)
    trouble = trouble_with_theirs("some_envs:Habits-v0", None, "torch", steps=1)
    assert "the process died of signal" in trouble or "Error" in trouble


@pytest.mark.skipif("torch" not in arrayferry.frameworks(), reason="torch is not installed")
def test_what_lines_by_hand_cannot_do_is_said(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    assert "negative" in trouble_by_hand("some_envs:Habits-v0", None, "torch")
    assert trouble_by_hand("CartPole-v1", None, "torch") == ""
