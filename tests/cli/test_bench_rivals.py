"""The rivals of `arrayferry bench` step, and what they cannot do is reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import arrayferry
from arrayferry.cli.bench import BARE, GYMNASIUM, OURS, problem_with_theirs, rival

TESTS = str(Path(__file__).parent.parent)
needs_torch = pytest.mark.skipif("torch" not in arrayferry.frameworks(), reason="torch is not installed")
has_conversion = pytest.mark.needs("gymnasium>=1.2")  # the first with an ArrayConversion


@pytest.fixture(autouse=True)
def _find_environments(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", TESTS, prepend=os.pathsep)


@pytest.mark.parametrize("vector", [None, 2])
@pytest.mark.parametrize("name", [BARE, OURS])
def test_rivals_step(name, vector):
    assert len(rival(name, "helpers.envs:Mixed-v0", vector, "numpy")(100)) == 100


@needs_torch
@pytest.mark.parametrize("name", [BARE, pytest.param(GYMNASIUM, marks=has_conversion), OURS])
def test_rivals_step_to_torch(name):
    assert len(rival(name, "CartPole-v1", None, "torch")(100)) == 100


@needs_torch
@has_conversion
def test_rival_that_fails_or_crashes():
    problem = problem_with_theirs(("helpers.envs:Mixed-v0", None, "torch"), steps=1)
    assert "the process died of signal" in problem or "Error" in problem
    assert problem_with_theirs(("CartPole-v1", None, "torch")) == ""
