"""The demo, with what is installed, and with NumPy alone."""

from __future__ import annotations

import json

import pytest

import arrayferry
from arrayferry.cli import crossings, demo, training
from arrayferry.cli.crossings import Crossing, equal_to_bare

needs_torch = pytest.mark.skipif("torch" not in arrayferry.frameworks(), reason="torch is not installed")


@pytest.fixture
def only_numpy(monkeypatch):
    found = {"numpy": arrayferry.frameworks()["numpy"]}
    monkeypatch.setattr(arrayferry, "frameworks", lambda: found)


def test_in_a_terminal(terminal, tmp_path):
    shown = terminal("demo", "--seconds", "1", "--laps", "1", folder=tmp_path)
    assert shown.finish() == 0
    text = shown.text
    assert "bit for bit" in text
    assert "not equal" not in text
    assert "arrayferry" in text
    assert max(map(len, text.splitlines())) <= 80
    if "torch" in arrayferry.frameworks():
        assert "An environment in NumPy, CartPole-v1, driven by torch" in text
        assert "training: mean return" in shown.raw.decode()  # the live bar, which is gone at the end
        assert "training: mean return" not in text
        for name in "learning_curve", "episode":
            file = tmp_path / "arrayferry-demo" / f"{name}.png"
            assert ("saved" in text and file.read_bytes().startswith(b"\x89PNG")) or "need pygame" in text


def test_with_numpy_alone_it_runs_and_says_what_would_be_added(ferry, only_numpy, tmp_path):
    done = ferry("demo", "--laps", "1", "--out", str(tmp_path))
    assert done.code == 0
    text = " ".join(done.out.split())
    assert "An environment in NumPy, CartPole-v1, driven by NumPy" in text
    assert "100 steps beside the bare environment: equal, bit for bit" in text
    assert 'driven by torch: pip install "arrayferry[torch]"' in text
    assert 'driven by JAX: pip install "arrayferry[jax]"' in text
    assert 'learns CartPole needs torch: pip install "arrayferry[torch]"' in text
    assert list(tmp_path.iterdir()) == []


def test_as_json(ferry, only_numpy):
    result = json.loads(ferry("demo", "--laps", "1", "--json").out)
    assert [proof["equal"] for proof in result["proofs"]] == [True]
    assert result["training"] is None
    assert len(result["not_shown"]) == 4


def test_a_file_where_the_pictures_go_is_refused_first(ferry, tmp_path):
    (tmp_path / "file").touch()
    done = ferry("demo", "--out", str(tmp_path / "file"))
    assert done.code == 2
    assert "that is a file" in done.err


def test_proof_can_fail(monkeypatch):
    crossing = Crossing("CartPole-v1", "numpy", "numpy")
    assert equal_to_bare(crossing, steps=20)["equal"]
    made = []

    def make(env_id):
        made.append(env_id)
        env = crossings_make(env_id)
        env.unwrapped.gravity = 9.8 + 1e-6 * len(made)
        return env

    crossings_make = crossings.make
    monkeypatch.setattr(crossings, "make", make)
    assert not equal_to_bare(crossing, steps=20)["equal"]


@needs_torch
def test_agent_learns():
    """Far from the goal, for little time; but far better than at random, which gets about 22."""
    for rollouts, progress in enumerate(training.train(goal=100, limit=1e9, seed=3), 1):
        assert len(progress.steps) == len(progress.returns) == len(progress.seconds) == rollouts
        assert rollouts < 60
    assert progress.mean_return >= 100


@needs_torch
def test_time_that_is_over_is_said(ferry, monkeypatch, tmp_path):
    def never(goal, limit, seed):
        progress = training.Progress(policy=None)
        progress.seconds, progress.steps, progress.returns = [1.0], [1024], [20.0]
        yield progress

    monkeypatch.setattr(training, "train", never)
    monkeypatch.setattr(demo, "_cross", lambda *_: {"equal": True})
    monkeypatch.setattr(
        demo, "compare", lambda *_: {"title": "x", "microseconds": {"bare": 1.0}, "fails": {}}
    )
    monkeypatch.setattr(demo, "_keep_pictures", lambda *_: [])
    text = " ".join(ferry("demo", "--out", str(tmp_path)).out.split())
    assert "mean return 20 after 1,024 steps, 1 s: did not pass the goal: the time was over" in text
