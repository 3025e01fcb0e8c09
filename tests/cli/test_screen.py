"""Tables in a terminal of 80 columns, Ctrl-C, pipes, and JSON whatever an environment prints."""

from __future__ import annotations

import json
import os
import re

from rich.console import Console

from arrayferry._explain.render import table
from arrayferry.cli.screen import stdout_to_stderr

COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


def test_table_in_a_terminal(terminal):
    shown = terminal("doctor", "numpy")
    assert shown.finish() == 0
    lines = shown.text.splitlines()
    assert lines[0] == "fine: numpy"
    assert any(line.startswith(" numpy") and line.endswith("fine, on cpu") for line in lines)
    assert COLOUR.search(shown.raw)


def test_no_colour_and_no_progress_in_a_pipe(piped):
    done = piped("doctor", "numpy")
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def lines_of(width, *arguments):
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table(*arguments))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_only_the_last_column_wraps_and_at_words():
    row = ["environment-wrote", "1234567890", "a [text] of some length that has to wrap somewhere"]
    lines = lines_of(50, ["name", ">number", "text"], [row], ["red"])
    assert lines[0] == " name                   number  text"
    assert lines[1].startswith(" environment-wrote  1234567890  a [text] of")
    assert " ".join(lines[1:]).split() == " ".join(row).split()
    assert max(map(len, lines)) <= 50


def test_the_last_column_of_a_table_stays_readable():
    lines = lines_of(34, ["name", "text"], [["environment-wrote", "obs [0] was written to"]])
    assert lines[1:] == [" environment-wrote  obs [0] was", " " * 20 + "written to"]


def test_json_in_a_pipe_is_nothing_but_json(piped):
    done = piped("explain", "helpers.envs:Mixed-v0", "--to", "numpy", "--json")
    assert json.loads(done.out)["title"] == "Mixed-v0 to numpy"
    assert done.err == ""


def test_json_is_json_whatever_the_environment_prints(piped):
    done = piped("check", "helpers.envs:Prints-v0", "--to", "numpy", "--steps", "2", "--json")
    assert json.loads(done.out)["ok"]
    assert set(done.err.split("\n")) == {"printed", "past sys.stdout", "written", "put", ""}


def test_stdout_is_restored(capfd):
    with stdout_to_stderr():
        print("redirected")
    print("printed")
    os.write(1, b"written\n")
    assert capfd.readouterr() == ("printed\nwritten\n", "redirected\n")


def test_ctrl_c_is_clean(terminal):
    shown = terminal("bench", "helpers.envs:Slow-v0", "--to", "numpy", "--laps", "1000")
    shown.read_until("taking turns")
    shown.press_ctrl_c()
    assert shown.finish() == 130
    assert shown.text.splitlines()[-1] == "arrayferry: stopped"
    assert "Traceback" not in shown.text
    assert shown.raw.rindex(b"\x1b[?25h") > shown.raw.rindex(b"\x1b[?25l")  # the cursor is back


def test_error_in_a_terminal(terminal):
    shown = terminal("explain", "CartPol-v1")
    assert shown.finish() == 2
    assert " ".join(shown.text.split()).startswith(
        "arrayferry: CartPol-v1 cannot be made: Environment `CartPol` doesn't exist. Did you mean"
    )


def test_reader_that_closes_the_pipe(run_python):
    code = """
import subprocess, sys
command = [sys.executable, "-m", "arrayferry", "explain", "CartPole-v1", "--to", "numpy", "--json"]
child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
child.stdout.close()
print(child.wait(), child.stderr.read())
"""
    assert run_python(code) == "0 b''\n"


def test_encoding_without_arrows(piped):
    done = piped("explain", "CartPole-v1", "--to", "numpy", PYTHONIOENCODING="ascii")
    assert (done.code, done.err) == (0, "")
    assert "obs" in done.out
