"""`reveal_type` of a wrapped environment's `step` says torch.Tensor: mypy's word for it."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import gymnasium.wrappers
import pytest

from helpers.compare import public_names

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "tests" / "typing" / "api.py"

# The promise above a line: what it reveals, or which error it is.
PROMISE = re.compile(r"\s+# (?:error: (?P<error>[\w-]+)|(?P<type>\S.*))$")
REPORT = re.compile(
    r":(?P<line>\d+): (?:note: Revealed type is \"(?P<type>.*)\"|error: .*\[(?P<error>[\w-]+)\])$"
)


def short(revealed: str) -> str:
    """`builtins.tuple[torch._tensor.Tensor, ...]` as a person writes it."""
    revealed = re.sub(r"numpy\.ndarray\[.*?numpy\.dtype\[Any\]\]", "ndarray", revealed)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", revealed)


LINES = API.read_text().splitlines()
PROMISED = {
    number + 1: match["error"] or match["type"]
    for number, line in enumerate(LINES, start=1)
    if (match := PROMISE.match(line))
}


def run_mypy(file: Path) -> str:
    """What mypy says of a file, by the project's own settings. (Half a minute without its cache.)"""
    pytest.importorskip("mypy")
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file",
            "pyproject.toml",
            "--show-error-codes",
            str(file),
        ],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def reported() -> dict[int, list[str]]:
    """What mypy says of each line of the API."""
    found: dict[int, list[str]] = {}
    for line in run_mypy(API).splitlines():
        if line.startswith("tests/typing/api.py") and (match := REPORT.search(line)):
            found.setdefault(int(match["line"]), []).append(match["error"] or short(match["type"]))
    return found


# An older one's wrappers and spaces have other types.
typed_gymnasium = pytest.mark.needs("gymnasium>=1.4")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=typed_gymnasium if promise.startswith(("TimeLimit[", "tuple[Box[")) else ())
        for line, promise in PROMISED.items()
    ],
    ids=lambda line: LINES[line - 1].strip(),
)
def test_what_is_revealed_is_what_is_promised(line: int, reported: dict[int, list[str]]) -> None:
    assert reported.get(line) == [PROMISED[line]]


@typed_gymnasium
def test_nothing_else_is_said(reported: dict[int, list[str]]) -> None:
    assert set(reported) <= set(PROMISED)


def test_there_are_promises() -> None:
    kinds = list(PROMISED.values())
    assert len(kinds) > 25
    assert any("Tensor" in kind for kind in kinds)
    assert any("Array" in kind for kind in kinds)
    assert any("ndarray" in kind for kind in kinds)


def test_mypy_finds_every_public_name_of_gymnasiums_wrappers(tmp_path: Path) -> None:
    """In our modules of the same names; what a newer Gymnasium adds is reported here."""
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    packages = pkgutil.walk_packages(gymnasium.wrappers.__path__, "gymnasium.wrappers.")
    names = ["gymnasium.wrappers", *(found.name for found in packages)]
    lines = [
        f"from {name.replace('gymnasium', 'arrayferry')} import {public} as _{number}_{public}\n"
        for number, name in enumerate(names)
        for public in public_names(importlib.import_module(name))
    ]
    (tmp_path / "imports.py").write_text("".join(lines))
    assert len(lines) > 100
    assert "error" not in run_mypy(tmp_path / "imports.py")
