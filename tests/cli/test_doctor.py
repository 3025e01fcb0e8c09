"""`arrayferry doctor`: the verdict comes first, then a line for each framework."""

from __future__ import annotations

import json

import arrayferry
from arrayferry._core.registry import registered
from arrayferry.cli import doctor
from arrayferry.cli.doctor import Status, status_of


def test_screen(ferry, monkeypatch, snapshot):
    statuses = {
        "torch": Status("torch", "", False, "pip install torch"),
        "numpy": Status("numpy", "2.4.6", True, "fine, on cpu"),
        "jax": Status("jax", "0.10.2", True, "fine, on cpu:0; no int64 or float64: enable 64-bit types"),
        "cupy": Status("cupy", "13.3.0", False, "cupy finds no device [none]"),
    }
    monkeypatch.setattr(doctor, "_chosen", lambda names: list(statuses))
    monkeypatch.setattr(doctor, "status_of", statuses.get)
    monkeypatch.setattr(doctor, "speedups", None)
    monkeypatch.setattr(doctor, "REFCOUNTS_RELIABLE", False)
    monkeypatch.setattr(doctor.arrayferry, "__version__", "1.2.3")
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.12.0")
    monkeypatch.setattr(doctor.platform, "system", lambda: "Linux")
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    done = ferry("doctor")
    assert done.code == 1  # something is installed but does not work
    snapshot("doctor", done.out)


def test_everything_installed_is_fine(ferry):
    done = ferry("doctor")
    assert done.code == 0
    assert done.out.startswith("fine: numpy")
    assert "not installed  pip install" in done.out


def test_json(ferry):
    found = json.loads(ferry("doctor", "--json").out)
    here = arrayferry.frameworks()
    assert {one["name"]: one["version"] for one in found["frameworks"]} == {
        name: here[name].version if name in here else "" for name in registered()
    }


def test_broken_installation(monkeypatch):
    def fail(name):
        raise OSError("libcudart.so: cannot open")

    monkeypatch.setattr(doctor, "find_framework", fail)
    status = status_of("numpy")
    assert not status.works
    assert status.version
    assert "libcudart.so: cannot open" in status.text


def test_framework_that_lacks_64_bits():
    if "jax" in arrayferry.frameworks():
        import jax

        with jax.enable_x64(False):
            assert "no int64 or float64: enable 64-bit types" in status_of("jax").text
    assert status_of("numpy").text == "fine, on cpu"
