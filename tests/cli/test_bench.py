"""`arrayferry bench`: rivals take turns, and the best time of each step counts."""

from __future__ import annotations

import json
import os
from pathlib import Path

from arrayferry.cli import bench
from arrayferry.cli.bench import BARE, GYMNASIUM, OURS, replay

TESTS = Path(__file__).parent.parent


def test_best_time_of_each_step_counts():
    noise = iter([[9.0] * 8, [9.0] * 8, [1.0, 5.0] * 4, [4.0] * 8, [7.0, 2.0] * 4, [6.0, 3.0] * 4])
    asked = []

    def trip(steps):
        asked.append(steps)
        return next(noise)

    assert replay({"a": trip, "b": trip}, 2, seconds=1.0) == {"a": 1.5, "b": 3.5}
    assert asked == [8] * 6


def test_trips_are_longer_where_steps_are_short():
    asked = []
    replay({"a": lambda steps: asked.append(steps) or [0.001] * steps}, 2, seconds=0.1)
    assert asked == [8, 100, 100]


def test_screen(ferry, monkeypatch, snapshot):
    times = {BARE: 10e-6, OURS: 14.5e-6}
    problems = {GYMNASIUM: "the process died of signal 6"}
    monkeypatch.setattr(bench, "problem_with_theirs", lambda _: problems[GYMNASIUM])
    monkeypatch.setattr(bench, "rival", lambda *_: None)
    monkeypatch.setattr(bench, "replay", lambda *_: times)
    done = ferry("bench", "helpers.envs:Mixed-v0", "--to", "numpy", "--vector", "4")
    assert done.code == 0
    snapshot("bench", done.out)


def test_all_rivals(ferry, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    result = json.loads(ferry("bench", "helpers.envs:Mixed-v0", "--to", "numpy", "--laps", "1", "--json").out)
    assert set(result["microseconds"]) | set(result["problems"]) == {BARE, GYMNASIUM, OURS}
    assert OURS in result["microseconds"]
