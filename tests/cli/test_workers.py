"""`arrayferry bench --workers`: Gymnasium's vector environments and ours, taking turns."""

from __future__ import annotations

import json
import os
from pathlib import Path

from arrayferry.cli import workers
from arrayferry.cli.workers import ASYNC, SYNC, WORKERS

TESTS = Path(__file__).parent.parent


def test_all_take_turns_and_it_is_said_who_waits(ferry, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    words = ("bench", "CartPole-v1", "--vector", "2", "--workers", "1", "--laps", "1")
    result = json.loads(ferry(*words, "--json").out)
    assert result["title"] == "CartPole-v1 x 2, 1 worker"
    assert list(result["microseconds"]) == [SYNC, ASYNC, WORKERS]
    assert min(result["microseconds"].values()) > 0
    assert result["problems"] == {}
    assert set(result["waiting"]) == {"learner", "workers"}
    assert all(0 <= share <= 1 for share in result["waiting"].values())


def test_a_vector_that_fails_is_named(ferry, monkeypatch):
    monkeypatch.setattr(workers, "replay", lambda trips, _: dict.fromkeys(trips, 1e-4))

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no pipes")

    monkeypatch.setattr(workers, "AsyncVectorEnv", refuse)
    done = ferry("bench", "CartPole-v1", "--vector", "2", "--workers", "2")
    assert done.code == 0
    assert "AsyncVectorEnv: RuntimeError: no pipes" in done.out
    assert "SyncVectorEnv" in done.out
    assert "20,000" in done.out  # 2 environments in 100 microseconds
    monkeypatch.setattr(workers, "SyncVectorEnv", refuse)
    assert ferry("bench", "CartPole-v1", "--workers", "2").code == 1
