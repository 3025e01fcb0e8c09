"""A few trials of every goal; the figures are those of `make stress`."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from reliability.goals import NAMES, Goal, find_goal, upper_bound
from reliability.libraries import ARRAYFERRY, GYMNASIUM
from reliability.trials import run, run_here


def goal_of(name):
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    return find_goal(name)


# Whose trials are tests of their own: each counter-example of R16, and each assumption of R17.
ELSEWHERE = {"R16": "core/test_ownership.py", "R17": "test_framework_assumptions.py"}


# Whose trials are made with what older versions do not have: shifts of 0-d uint64s, and jax.new_ref.
NEEDS = {"R9": "numpy>=2", "R10": "jax>=0.8"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.needs(NEEDS[name])) if name in NEEDS else name
        for name in NAMES
        if name not in ELSEWHERE
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.filterwarnings("ignore:scatter inputs:FutureWarning")  # in gymnax's own Breakout
def test_goal_holds(name):
    goal = goal_of(name)
    outcome = (run if goal.isolated else run_here)(goal, goal.thin, ARRAYFERRY)
    assert outcome.failures == []
    assert outcome.trials == goal.thin


def test_the_goals_are_those_of_the_list():
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    assert [find_goal(name).name for name in NAMES] == [f"R{number}" for number in range(1, 31)]
    for goal in map(find_goal, NAMES):
        assert 0 < goal.thin <= goal.full
        assert goal.peer <= goal.full


# Where Gymnasium's own conversion fails for certain: so these goals can be missed.
MISSED = {"R3": 6, "R9": 60, "R11": 20, "R12": 2, "R13": 2, "R14": 4}


@pytest.mark.parametrize("name", MISSED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_goal_can_be_missed(name):
    assert run(goal_of(name), MISSED[name], GYMNASIUM).failures


# --- the harness


def dies(number, library):
    if number == 1:
        os.abort()
    if number == 2:
        raise ValueError("two\nlines")
    if number == 3:
        os._exit(7)


HARNESS = Goal(name="R0", title="", trial=dies, unit="", full=5, thin=5, isolated=True)


def test_a_death_is_the_failure_of_one_trial(tmp_path):
    """A child that dies is replaced by one that goes on behind."""
    code = (
        "from reliability import goals, test_goals, trials\n"
        "goals.find_goal = lambda name: test_goals.HARNESS\n"
        "trials.main()\n"
    )
    (tmp_path / "program.py").write_text(code)
    outcome = run(HARNESS, 5, ARRAYFERRY, program=[str(tmp_path / "program.py")])
    assert outcome.trials == 5
    assert outcome.failures == [
        "trial 1: died of SIGABRT",
        "trial 2: ValueError: two",
        "trial 3: exit code 7",
    ]


def test_a_trial_that_hangs_is_a_failure(tmp_path):
    (tmp_path / "program.py").write_text("import time\nprint('\"\"', flush=True)\ntime.sleep(600)\n")
    outcome = run(replace(HARNESS, patience=3), 2, ARRAYFERRY, program=[str(tmp_path / "program.py")])
    assert outcome.failures == ["trial 1: no answer for 3 s"]


def test_a_child_that_does_not_start_is_no_failure_but_an_error(tmp_path):
    (tmp_path / "program.py").write_text("raise SystemExit(1)\n")
    with pytest.raises(RuntimeError, match="this does not start"):
        run(HARNESS, 2, ARRAYFERRY, program=[str(tmp_path / "program.py")])


# --- the bound


@pytest.mark.parametrize("trials", [10, 300, 60_000])
def test_bound_without_a_failure_is_about_three_in_n(trials):
    pytest.importorskip("scipy")
    assert upper_bound(0, trials) == pytest.approx(1 - 0.05 ** (1 / trials), rel=1e-9)
    assert upper_bound(0, trials) == pytest.approx(3 / trials, rel=0.15)
    assert upper_bound(trials, trials) == 1
