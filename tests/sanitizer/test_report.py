"""How findings are told: once, where the agent called, as warnings or errors."""

from __future__ import annotations

import warnings

import pytest

import arrayferry
from arrayferry.sanitizer import SanitizerError, SanitizerWarning
from helpers.envs import Counter, Held, Reusing, Scripted
from sanitizer.helpers import ACTION, FRESH, NAN, ZERO, found, step_of


def test_one_warning_for_each_kind_and_path_at_the_callers_line() -> None:
    env = arrayferry.wrap(Scripted(*[step_of(NAN)] * 5), "numpy", sanitize=True)
    env.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(5):
            env.step(1)
    assert [warning.category for warning in caught] == [SanitizerWarning]
    assert caught[0].filename == __file__


def test_findings_are_raised_if_asked() -> None:
    for sanitize in ("raise", True):
        env = arrayferry.wrap(Scripted(step_of(NAN), step_of(ZERO)), "numpy", sanitize=sanitize)
        env.reset()
        if sanitize == "raise":
            with pytest.raises(SanitizerError, match=r"obs, step 1: \[1\] is NaN") as raised:
                env.step(1)
            assert raised.value.finding == found(env)["nan", "obs"]
            assert isinstance(raised.value, arrayferry.FerryError)
            env.step(1)  # and goes on, if somebody wants to
        else:
            with pytest.warns(SanitizerWarning):
                env.step(1)


def test_an_info_is_not_raised() -> None:
    env = arrayferry.wrap(Reusing(), "numpy", sanitize="raise")
    env.reset()
    env.step(ACTION)
    assert len(arrayferry.findings(env)) > 0


def test_the_report_says_how_many_steps_were_watched() -> None:
    env = arrayferry.wrap(Counter(), "numpy", sanitize=True)
    env.reset()
    env.step(1)
    report = arrayferry.findings(env)
    assert report.steps == 1
    assert str(report) == "safe as wrapped\n1 steps"


def test_findings_of_an_unwatched_environment_are_refused() -> None:
    with pytest.raises(arrayferry.errors.UnsupportedError, match="sanitize=True"):
        arrayferry.findings(arrayferry.wrap(Counter(), "numpy"))


def test_without_reference_counts_memory_may_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Python 3.14 and newer: everything is watched, and the environment may hold it."""
    monkeypatch.setattr(arrayferry._core.ownership, "REFCOUNTS_RELIABLE", False)
    monkeypatch.setattr(arrayferry._core.ownership, "unshared", -1)
    for copy in (None, False):
        env = arrayferry.wrap(Held(FRESH["copy"]), "numpy", copy=copy, sanitize=True)
        obs, _ = env.reset()
        env.step(1)
        assert found(env) == {}
        obs += 1
        if copy is None:
            env.step(1)
        else:
            with pytest.warns(SanitizerWarning, match="which the environment may still hold"):
                env.step(1)


def test_a_report_is_true_if_all_is_well() -> None:
    for steps, is_well in (([step_of(ZERO)], True), ([step_of(NAN)], False)):
        env = arrayferry.wrap(Scripted(*steps), "numpy", sanitize=True)
        env.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SanitizerWarning)
            env.step(1)
        report = arrayferry.findings(env)
        assert bool(report) is report.ok is is_well
    env = arrayferry.wrap(Reusing(), "numpy", sanitize=True)
    env.reset()
    env.step(ACTION)
    assert len(arrayferry.findings(env)) > 0  # infos
    assert arrayferry.findings(env)
    assert arrayferry.check("CartPole-v1", steps=20)
    assert not arrayferry.check(Scripted(*[step_of(NAN)] * 9), steps=3)


def test_what_is_found_again_is_raised_again() -> None:
    env = arrayferry.wrap(Scripted(*[step_of(NAN)] * 3), "numpy", sanitize="raise")
    env.reset()
    for number in (1, 2, 3):
        with pytest.raises(SanitizerError, match="NaN"):
            env.step(1)
        assert found(env)["nan", "obs"].times == number
    assert not arrayferry.findings(env)


def test_what_was_found_stays_found_after_an_exception() -> None:
    steps = [step_of(ZERO, float("nan")), ValueError("the arm is broken"), step_of(ZERO)]
    env = arrayferry.wrap(Scripted(*steps), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning):
        env.step(1)
    with pytest.raises(ValueError, match="broken"):
        env.step(1)
    env.step(1)
    assert not arrayferry.findings(env)


def test_many_infos_leave_room_for_an_error() -> None:
    infos = [{str(key): one for key in range(1500)} for one in (1, 1.5)]
    steps = [*(step_of(ZERO, 0.0, info) for info in infos), step_of(NAN)]
    env = arrayferry.wrap(Scripted(*steps), "numpy", sanitize=True)
    env.reset()
    env.step(1)
    env.step(1)
    with pytest.warns(SanitizerWarning, match="NaN"):
        env.step(1)
    assert not arrayferry.findings(env)
