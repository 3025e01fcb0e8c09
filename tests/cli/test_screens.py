"""The screens, as they are: with a steady clock, each table is the same to the last character."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import arrayferry
from arrayferry._core.speedups import speedups
from arrayferry.cli import bench, doctor
from arrayferry.cli.pairs import Pair
from arrayferry.cli.rivals import BARE, BY_HAND, OURS, THEIRS
from arrayferry.sanitizer import Finding, Report

HERE = Path(__file__).parent
needs_torch = pytest.mark.skipif("torch" not in arrayferry.frameworks(), reason="torch is not installed")


@pytest.mark.parametrize("to", ["numpy", pytest.param("torch", marks=needs_torch)])
def test_explain(ferry, steady_clock, snapshot, to):
    done = ferry("explain", "some_envs:Habits-v0", "--to", to)
    assert done.code == 0
    assert done.err == ""
    snapshot(f"explain_{to}", done.out)


def test_explain_a_vector(ferry, steady_clock, snapshot):
    done = ferry("explain", "some_envs:Counts-v0", "--to", "numpy", "--vector", "3", "--steps", "5")
    assert done.code == 0
    snapshot("explain_vector", done.out)


@pytest.mark.skipif("jax" not in arrayferry.frameworks(), reason="jax is not installed")
def test_explain_shows_what_is_refused(ferry, steady_clock, snapshot):
    done = ferry("explain", "some_envs:Counts-v0", "--to", "jax", "--steps", "2")
    assert done.code == 1
    snapshot("explain_refused", done.out)


def test_explain_with_casts_and_copies(ferry):
    words = ["explain", "some_envs:Habits-v0", "--to", "numpy", "--dtypes", "float64=float32", "--json"]
    found = {leaf["path"]: leaf for leaf in json.loads(ferry(*words).out)["leaves"]}
    assert found['obs["kept"]']["verdict"] == "cast to float32: dtypes= asks for it"
    words[4:6] = ["--copy", "always"]
    found = {leaf["path"]: leaf for leaf in json.loads(ferry(*words).out)["leaves"]}
    assert found['obs["new"]']["verdict"] == "copied: copy=True"
    words[5] = "never"
    found = {leaf["path"]: leaf for leaf in json.loads(ferry(*words).out)["leaves"]}
    assert found['obs["kept"]']["verdict"] == "shared: copy=False"


def test_check_screen(ferry, monkeypatch, snapshot):
    wide = Finding(
        kind="outside-space",
        severity="warning",
        path='obs["new"]',
        step=1,
        message="[0] is 7.0, above 1.0",
        hint="repair the observation or its space",
        times=20,
    )
    wrote = Finding(
        kind="wrote", severity="error", path="obs", step=3, message="the environment wrote into it"
    )
    report = Report(findings=(wide,), steps=40, sharing=(wrote,), shareable=False)
    monkeypatch.setattr(arrayferry, "check", lambda *_, **__: report, raising=False)
    done = ferry("check", "some_envs:Overwrites-v0", "--to", "numpy", "--steps", "20")
    assert done.code == 1
    snapshot("check", done.out)


def test_check_exits_with_1_on_a_finding(ferry):
    done = ferry("check", "some_envs:Overwrites-v0", "--to", "numpy", "--steps", "20")
    assert done.code == 1
    assert 'obs["new"]' in done.out
    assert "copy=False is not safe here" in done.out


def test_check_finds_nothing(ferry):
    done = ferry("check", "CartPole-v1", "--to", "numpy")
    assert done.code == 0
    assert "CartPole-v1 to numpy: nothing found in " in done.out


def test_check_counts_what_it_shows(ferry, monkeypatch):
    kept = Finding(kind="kept", severity="info", path="obs", step=2, message="the environment keeps it")
    for report, last in (
        (
            Report(findings=(), steps=40, sharing=(kept,), shareable=True),
            "1 found in 40 steps, with and without",
        ),
        (Report(findings=(), steps=20, not_shared="no memory"), "nothing found in 20 steps, with copies"),
    ):
        monkeypatch.setattr(arrayferry, "check", lambda *_, report=report, **__: report, raising=False)
        done = ferry("check", "CartPole-v1", "--vector", "2", "--to", "numpy", "--steps", "20")
        assert done.code == 0
        assert f"CartPole-v1 x 2 to numpy: {last}" in done.out
    assert "no memory" in done.out


def test_check_as_json(ferry):
    done = ferry("check", "some_envs:Overwrites-v0", "--to", "numpy", "--steps", "3", "--json")
    report = json.loads(done.out)
    assert (done.code, report["ok"]) == (1, False)
    assert 'obs["new"]' in {finding["path"] for finding in report["findings"]}


def test_doctor(ferry, monkeypatch, snapshot):
    here = [
        doctor.Installed("numpy", "2.4.6", ("cpu",), True, "int64", "float64"),
        doctor.Installed("jax", "0.10.2", ("cpu:0",), False, "int32", "float32"),
        doctor.Installed("cupy", "13.3.0", problem="cupy finds no device [none]"),
    ]
    pairs = [
        Pair("numpy", "numpy", ("numpy", "numpy"), "taken over", "yes", 1.5e-6, 4e-5),
        Pair("numpy", "jax", ("numpy", "jax"), "copied", "if aligned", 5e-5, 1.2e-4),
        Pair("jax", "numpy", ("jax", "numpy"), "copied", "yes", 8e-6, 5e-5),
        Pair("jax", "jax", problem="it says [no]"),
    ]
    missing = [("torch", "a framework", 'pip install "arrayferry[torch]"')]
    monkeypatch.setattr(doctor, "_chosen", lambda names: ["numpy", "jax", "cupy"])
    monkeypatch.setattr(doctor, "_look", lambda name: next(one for one in here if one.name == name))
    monkeypatch.setattr(doctor, "look_at", lambda source, target: pairs.pop(0))
    monkeypatch.setattr(doctor, "memcpy_seconds", lambda: 3.2e-5)
    monkeypatch.setattr(doctor, "_missing", lambda: missing)
    monkeypatch.setattr(doctor, "_about", lambda: "arrayferry on a machine\n")
    done = ferry("doctor")
    assert done.code == 1  # something that is installed does not work
    snapshot("doctor", done.out)


def test_doctor_as_json(ferry):
    done = ferry("doctor", "numpy", "--json")
    found = json.loads(done.out)
    assert done.code == 0
    assert [one["name"] for one in found["frameworks"]] == ["numpy"]
    [pair] = found["pairs"]
    assert (pair["route"], pair["fresh"], pair["shares"]) == (["numpy", "numpy"], "taken over", "yes")
    assert 0 < pair["small"] < pair["large"]
    assert found["in_c"] is (speedups is not None)
    absent = set(arrayferry._core.registry.registered()) - set(arrayferry.frameworks())
    assert absent <= {one["name"] for one in found["missing"]}


def test_doctor_says_when_the_part_in_c_is_missing(monkeypatch):
    for here, says in ((None, True), (object(), False)):
        monkeypatch.setattr(doctor, "speedups", here)
        assert ("C compiler" in doctor._about()) is says


def test_bench_screen(ferry, monkeypatch, snapshot):
    times = {BARE: 10e-6, BY_HAND: 14e-6, OURS: 14.5e-6}
    monkeypatch.setattr(bench, "trouble_by_hand", lambda *_: "")
    monkeypatch.setattr(bench, "trouble_with_theirs", lambda *_: "the process died of signal 6")
    monkeypatch.setattr(bench, "rivals", lambda *_, **__: dict.fromkeys(times))
    monkeypatch.setattr(bench, "replay", lambda *_, **__: times)
    done = ferry("bench", "some_envs:Habits-v0", "--to", "numpy", "--vector", "4")
    assert done.code == 0
    snapshot("bench", done.out)


def test_bench_steps_all_rivals(ferry, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    picture = tmp_path / "bench.png"
    words = ["bench", "some_envs:Habits-v0", "--to", "numpy", "--laps", "1", "--json", "--plot", str(picture)]
    result = json.loads(ferry(*words).out)
    assert set(result["microseconds"]) | set(result["fails"]) == {BARE, BY_HAND, THEIRS, OURS}
    assert OURS in result["microseconds"]
    assert picture.read_bytes().startswith(b"\x89PNG")
