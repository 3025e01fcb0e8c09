"""Wrong arguments: one line that helps, on stderr, the right exit code, and never a traceback."""

from __future__ import annotations

import pytest

import arrayferry
from arrayferry.cli.commands import COMMANDS, parsed

WRONG = {
    "": "arguments are required: COMMAND",
    "expln CartPole-v1": "there is no command 'expln': did you mean explain?",
    "polish": "the commands are doctor, explain, bench, check",
    "explain": "arguments are required: ENV_ID",
    "explain CartPole-v1 --vectr 3": "explain does not know '--vectr': did you mean --vector?",
    "explain CartPole-v1 Pendulum-v1": "explain does not know 'Pendulum-v1'",
    "explain CartPole-v1 --vector 0": "'0' is not 1 or more",
    "explain CartPole-v1 --copy sometimes": "invalid choice: 'sometimes'",
    "explain CartPol-v1": "there is no environment 'CartPol-v1': did you mean CartPole-v1",
    "explain cartpole-v1": "did you mean CartPole-v1",
    "explain CartPole-v9": "did you mean CartPole-v1",
    "explain Nonesuch": "if a package registers it, write package:Nonesuch",
    "explain ALE/Pong-v5": "write ale_py:ALE/Pong-v5",
    "explain no_such_module:X-v0": "there is no module 'no_such_module'",
    "explain some_envs:Habit-v0": "did you mean Habits-v0?",
    "explain two words": "explain does not know 'words'",
    "explain CartPole-v1 --to nump": "'nump' is not an array framework; did you mean 'numpy'?",
    "explain CartPole-v1 --to numpy --device cuda:7": "no device 'cuda:7'; the devices here are: cpu",
    "explain CartPole-v1 --to numpy --dtypes float64": "write it as old=new",
    "explain CartPole-v1 --to numpy --dtypes float64=floot": "there is no dtype 'floot'",
    "bench CartPol-v1 --to numpy": "did you mean CartPole-v1",
    "bench --to numpy --plot bench.txt": "a picture's name ends in .png, .svg, .pdf",
    "bench --to numpy --plot no_such_folder/bench.png": "there is no folder",
    "check CartPole-v1 --steps many": "'many' is not 1 or more",
    "doctor nump": "'nump' is not an array framework; did you mean 'numpy'?",
}


@pytest.mark.parametrize("words", WRONG, ids=lambda words: words or "nothing")
def test_one_helpful_line(ferry, words):
    done = ferry(*words.split())
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("arrayferry: ")
    assert done.err.count("\n") == 1
    assert WRONG[words] in done.err


def test_framework_that_is_not_installed_is_named_with_its_command(ferry):
    absent = next(name for name in ("cupy", "tensorflow") if name not in arrayferry.frameworks())
    for words in (["explain", "CartPole-v1", "--to", absent], ["doctor", absent]):
        done = ferry(*words)
        assert done.code == 2
        assert "pip install " in done.err
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", ["explain", "bench", "check"])
def test_environment_that_fails_is_told_in_one_line(ferry, command):
    done = ferry(command, "some_envs:Breaks-v0", "--to", "numpy")
    assert done.code == 1
    assert done.err == "arrayferry: RuntimeError: the motor [left] is gone; --traceback shows where\n"


def test_traceback_is_shown_to_who_asks(ferry):
    with pytest.raises(RuntimeError, match="the motor"):
        ferry("explain", "some_envs:Breaks-v0", "--to", "numpy", "--traceback")


def test_without_rich_one_line_says_what_to_install(ferry, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rich.console", None)
    done = ferry("doctor")
    assert (done.code, done.err) == (2, 'arrayferry: the command needs rich: pip install "arrayferry[cli]"\n')


def test_without_matplotlib_a_plot_is_refused_before_the_work(ferry, monkeypatch):
    monkeypatch.setattr("arrayferry.cli.pictures.find_spec", lambda name: None)
    done = ferry("bench", "--to", "numpy", "--plot", "bench.png")
    assert done.code == 2
    assert done.err == 'arrayferry: pictures need matplotlib: pip install "arrayferry[cli]"\n'


def test_help_has_examples_and_exit_codes(ferry):
    done = ferry("--help")
    assert done.code == 0
    assert all(name in done.out for name in COMMANDS)
    for name, command in COMMANDS.items():
        done = ferry(name, "--help")
        assert done.code == 0
        assert all(f"  {line}" in done.out for line in command.EXAMPLES.splitlines())
        assert "130  stopped with Ctrl-C" in done.out
        assert max(map(len, done.out.splitlines())) <= 80


def test_examples_in_the_help_are_understood():
    for name, command in COMMANDS.items():
        for line in command.EXAMPLES.splitlines():
            assert line.startswith(f"arrayferry {name}")
            assert parsed(line.split()[1:]).command is command


def test_version(ferry):
    assert ferry("--version").out == f"arrayferry {arrayferry.__version__}\n"
