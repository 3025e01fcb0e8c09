"""`arrayferry bench`: rivals take turns, and the best time of each step counts."""

from __future__ import annotations

import json
import os
from pathlib import Path

from arrayferry.cli import bench
from arrayferry.cli.bench import ASYNC, BARE, GYMNASIUM, OURS, SYNC, WORKERS, replay

TESTS = Path(__file__).parent.parent


def test_best_time_of_each_step_counts():
    noise = iter([[9.0] * 8, [9.0] * 8, [1.0, 5.0] * 4, [4.0] * 8, [7.0, 2.0] * 4, [6.0, 3.0] * 4])
    asked = []

    def trip(steps):
        asked.append(steps)
        return next(noise)

    assert replay({"a": trip, "b": trip}, range(2), seconds=1.0) == {"a": 1.5, "b": 3.5}
    assert asked == [8] * 6


def test_trips_are_longer_where_steps_are_short():
    asked = []
    replay({"a": lambda steps: asked.append(steps) or [0.001] * steps}, range(2), seconds=0.1)
    assert asked == [8, 100, 100]


def test_screen(ferry, monkeypatch, snapshot):
    times = {BARE: 10e-6, OURS: 14.5e-6}
    problems = {GYMNASIUM: "the process died of signal 6"}
    monkeypatch.setattr(bench, "problem_with", lambda name, *_: problems.get(name, ""))
    monkeypatch.setattr(bench, "rival", lambda *_: None)
    monkeypatch.setattr(bench, "replay", lambda *_: times)
    done = ferry("bench", "toys:Mixed-v0", "--to", "numpy", "--vector", "4")
    assert done.code == 0
    snapshot("bench", done.out)


def test_all_rivals(ferry, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    result = json.loads(ferry("bench", "toys:Mixed-v0", "--to", "numpy", "--laps", "1", "--json").out)
    assert set(result["microseconds"]) | set(result["problems"]) == {BARE, GYMNASIUM, OURS}
    assert OURS in result["microseconds"]


def test_vectors(ferry, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    words = ("bench", "CartPole-v1", "--vector", "2", "--workers", "1", "--laps", "1")
    result = json.loads(ferry(*words, "--json").out)
    assert result["title"] == "CartPole-v1 x 2, 1 worker"
    assert list(result["microseconds"]) == [SYNC, ASYNC, WORKERS]
    assert min(result["microseconds"].values()) > 0
    assert result["problems"] == {}


def test_a_vector_that_fails_is_told(ferry, monkeypatch):
    monkeypatch.setattr(bench, "replay", lambda trips, _: dict.fromkeys(trips, 1e-4))

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no pipes here")

    monkeypatch.setattr(bench, "AsyncVectorEnv", refuse)
    done = ferry("bench", "CartPole-v1", "--vector", "2", "--workers", "2")
    assert done.code == 0
    assert "AsyncVectorEnv: RuntimeError: no pipes here" in done.out
    assert "SyncVectorEnv" in done.out
    assert "20,000" in done.out  # 2 environments in 100 microseconds
    monkeypatch.setattr(bench, "SyncVectorEnv", refuse)
    assert ferry("bench", "CartPole-v1", "--workers", "2").code == 1
