"""As a person uses it: in a terminal of 80 columns, with Ctrl-C, and in a pipe."""

from __future__ import annotations

import json
import re

COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


def test_a_table_in_a_terminal(terminal):
    shown = terminal("explain", "some_envs:Habits-v0", "--to", "numpy")
    assert shown.finish() == 0
    lines = shown.text.splitlines()
    assert lines[0] == "Habits-v0 to numpy"
    assert any(line.startswith(' obs["kept"]') and "copied" in line for line in lines)
    assert COLOUR.search(shown.raw)


def test_no_colour_and_no_progress_in_a_pipe(piped):
    done = piped("doctor", "numpy")
    assert done.code == 0
    assert done.err == ""
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "→numpy" in done.out


def test_json_in_a_pipe_is_json_alone(piped):
    done = piped("explain", "some_envs:Habits-v0", "--to", "numpy", "--json")
    assert json.loads(done.out)["title"] == "Habits-v0 to numpy"
    assert done.err == ""


def test_ctrl_c_is_clean(terminal):
    shown = terminal("bench", "some_envs:Slow-v0", "--to", "numpy", "--laps", "1000")
    shown.read_until("taking turns")
    shown.press_ctrl_c()
    assert shown.finish() == 130
    assert shown.text.splitlines()[-1] == "arrayferry: stopped"
    assert "Traceback" not in shown.text
    assert shown.raw.rindex(b"\x1b[?25h") > shown.raw.rindex(b"\x1b[?25l")  # the cursor is back


def test_what_is_wrong_in_a_terminal(terminal):
    shown = terminal("explain", "CartPol-v1")
    assert shown.finish() == 2
    assert " ".join(shown.text.split()).startswith(
        "arrayferry: there is no environment 'CartPol-v1': did you mean CartPole-v1"
    )


def test_a_reader_that_has_seen_enough(run_python):
    code = """
import subprocess, sys
command = [sys.executable, "-m", "arrayferry", "explain", "CartPole-v1", "--to", "numpy", "--json"]
child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
child.stdout.close()
print(child.wait(), child.stderr.read())
"""
    assert run_python(code) == "0 b''\n"


def test_an_encoding_without_arrows(piped):
    done = piped("explain", "CartPole-v1", "--to", "numpy", PYTHONIOENCODING="ascii")
    assert (done.code, done.err) == (0, "")
    assert "obs" in done.out
