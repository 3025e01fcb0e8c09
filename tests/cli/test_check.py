"""`arrayferry check`: the verdict comes first, and agrees with the colours and the exit code."""

from __future__ import annotations

import inspect
import json

import pytest

import arrayferry
from arrayferry.sanitizer import Finding, Report

OUTSIDE = Finding(
    kind="outside-space",
    severity="warning",
    path='obs["new"]',
    step=1,
    message="[0] is 7.0, above 1.0",
    hint="fix the observation or its space",
    times=20,
)
WROTE = Finding(
    kind="environment-wrote",
    severity="error",
    path="obs",
    step=3,
    message="the environment wrote into it",
    hint="return a copy from the environment, or leave copy at None",
)
KEPT = Finding(kind="kept", severity="info", path="obs", step=2, message="the environment keeps it")


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (Report(findings=(), shareable=True), "safe as wrapped; safe with copy=False too"),
        (
            Report(findings=(KEPT,), sharing=(WROTE,), shareable=False),
            "safe as wrapped; not safe with copy=False",
        ),
        (
            Report(findings=(), not_shared="obs: no memory"),
            "safe as wrapped; copy=False is not possible: obs: no memory",
        ),
        (
            Report(findings=(OUTSIDE, WROTE, OUTSIDE), shareable=False),
            "not safe as wrapped (1 error, 2 warnings); not safe with copy=False",
        ),
        (
            Report(findings=(OUTSIDE,), shareable=True),
            "not safe as wrapped (1 warning); copy=False adds nothing to that",
        ),
    ],
)
def test_verdict(report, words):
    assert report.verdict == words


@pytest.fixture
def reported(monkeypatch):
    """Let `arrayferry.check` return a report."""

    def report(**fields):
        made = Report(**fields)
        monkeypatch.setattr(arrayferry, "check", lambda *_, **__: made, raising=False)

    return report


def test_screen(ferry, reported, snapshot):
    reported(findings=(OUTSIDE,), steps=40, sharing=(WROTE,), shareable=False)
    done = ferry("check", "helpers.envs:Overwrites-v0", "--to", "numpy", "--steps", "20")
    assert done.code == 1
    snapshot("check", done.out)


RED, GREEN = "\x1b[31m", "\x1b[32m"


def test_colours_agree_with_the_exit_code(ferry, reported, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    reported(findings=(KEPT,), steps=40, sharing=(WROTE,), shareable=False)
    done = ferry("check", "CartPole-v1", "--to", "numpy")
    assert done.code == 0
    assert done.out.startswith(f"{GREEN}safe as wrapped")
    assert RED not in done.out
    reported(findings=(WROTE,), steps=40, shareable=False)
    done = ferry("check", "CartPole-v1", "--to", "numpy")
    assert done.code == 1
    assert done.out.startswith(f"{RED}not safe as wrapped")
    assert GREEN not in done.out


def test_environment_that_leaves_its_space(ferry):
    done = ferry("check", "helpers.envs:Overwrites-v0", "--to", "numpy", "--steps", "20")
    assert done.code == 1
    assert done.out.startswith("not safe as wrapped (1 warning); not safe with copy=False\n")
    assert 'obs["new"]' in done.out


def test_environment_that_only_reuses_memory(ferry):
    done = ferry("check", "MountainCarContinuous-v0", "--to", "numpy", "--steps", "20")
    assert done.code == 0
    assert done.out.startswith("safe as wrapped; not safe with copy=False\n")


def test_fine_environment(ferry):
    done = ferry("check", "CartPole-v1", "--vector", "2", "--to", "numpy", "--steps", "50")
    assert done.code == 0
    assert done.out == "safe as wrapped; safe with copy=False too\nCartPole-v1 x 2 to numpy, 100 steps\n"


def test_json(ferry):
    done = ferry("check", "helpers.envs:Overwrites-v0", "--to", "numpy", "--steps", "3", "--json")
    report = json.loads(done.out)
    assert (done.code, report["ok"]) == (1, False)
    assert report["verdict"].startswith("not safe as wrapped")
    assert 'obs["new"]' in {finding["path"] for finding in report["findings"]}


def test_the_command_and_the_function_have_the_same_default(ferry, monkeypatch):
    targets = []

    def check(env, to, device, **options):
        targets.append(to)
        return Report(findings=())

    monkeypatch.setattr(arrayferry, "check", check, raising=False)
    assert ferry("check", "CartPole-v1").code == 0
    assert "(default: numpy)" in " ".join(ferry("check", "--help").out.split())
    monkeypatch.undo()
    default = inspect.signature(arrayferry.check).parameters["to"].default
    assert targets == [default] == ["numpy"]
