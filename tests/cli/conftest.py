"""Fixtures that run the command: in this process, in a terminal, and with pipes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyte
import pytest

from arrayferry.cli import main

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENVIRONMENT = {
    **{name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")},
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
    "TERM": "xterm-256color",
}


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def ferry(capsys, monkeypatch):
    """Run the command in this process: `ferry("explain", "CartPole-v1")`."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> Done:
        capsys.readouterr()
        code = main(words)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def snapshot():
    """Compare text with a file; SNAPSHOTS=write in the environment writes the file."""

    def compare(name: str, text: str) -> None:
        file = HERE / "snapshots" / f"{name}.txt"
        text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
        if os.environ.get("SNAPSHOTS") == "write":
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")
        assert max(map(len, text.splitlines())) <= 80

    return compare


# `python -m arrayferry`, with the terminal as the one that sends Ctrl-C. A shell that runs the tests in the
# background has told them to ignore it.
_IN_TERMINAL = """
import fcntl, runpy, signal, sys, termios
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, "")
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("arrayferry", run_name="__main__", alter_sys=True)
"""


class Terminal:
    """The command in a terminal of 80 columns."""

    def __init__(self, *words: str, folder: Path = HERE) -> None:
        pty, fcntl, termios = map(pytest.importorskip, ("pty", "fcntl", "termios"))  # not on Windows
        self._screen = pyte.Screen(80, 400)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 400, 80, 0, 0))
        command = [sys.executable, "-c", _IN_TERMINAL, *words]
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=ENVIRONMENT,
            cwd=folder,
            start_new_session=True,
        )
        os.close(theirs)

    def read(self) -> bool:
        """Read what it shows; return False at the end."""
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # on Linux: the other side is closed
            data = b""
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def read_until(self, text: str) -> None:
        while text not in self.text:
            assert self.read(), f"it ended without {text!r}:\n{self.text}"

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def finish(self) -> int:
        while self.read():
            pass
        os.close(self._ours)
        return self._process.wait(timeout=60)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display).strip("\n")


@pytest.fixture
def terminal():
    return Terminal


@pytest.fixture
def piped():
    """Run the command with its output in pipes."""

    def run(*words: str, **env: str) -> Done:
        command = [sys.executable, "-m", "arrayferry", *words]
        done = subprocess.run(
            command, env=ENVIRONMENT | env, cwd=HERE, capture_output=True, text=True, timeout=120, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run
