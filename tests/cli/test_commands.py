"""The arguments: help, and for a mistake one helpful line on stderr, the right exit code, no traceback."""

from __future__ import annotations

import sys

import pytest

import arrayferry
from arrayferry.cli.commands import COMMANDS, parse

WRONG = {
    "expln CartPole-v1": "invalid choice: 'expln'",
    "polish": "invalid choice: 'polish'",
    "explain": "arguments are required: ENV",
    "explain CartPole-v1 --vectr 3": "unrecognized arguments: --vectr 3",
    "explain CartPole-v1 Pendulum-v1": "unrecognized arguments: Pendulum-v1",
    "explain CartPole-v1 --vector 0": "'0' is not a whole number of at least 1",
    "bench CartPole-v1 --vector 0 --workers 1": "'0' is not a whole number of at least 1",
    "bench CartPole-v1 --workers 1 --to numpy": "leave out --to and --device",
    "bench CartPole-v1 --workers 1 --device cpu": "leave out --to and --device",
    "explain CartPole-v1 --copy sometimes": "invalid choice: 'sometimes'",
    "explain CartPol-v1": "CartPol-v1 cannot be made: Environment `CartPol` doesn't exist. Did you mean",
    "explain CartPole-v1 --to nump": "did you mean 'numpy'?",
    "explain CartPole-v1 --to numpy --device cuda:7": "numpy has no device 'cuda:7' here",
    "explain CartPole-v1 --to numpy --dtypes float64": "write old=new",
    "explain CartPole-v1 --to numpy --dtypes float64=floot": "'floot'",
    "bench CartPol-v1 --to numpy": "Did you mean: `CartPole`",
    "check CartPole-v1 --steps many": "'many' is not a whole number of at least 1",
    "doctor nump": "did you mean 'numpy'?",
}


def test_hint_is_for_the_command_line(ferry):
    done = ferry("check", "CartPole-v1", "--to", "nump")
    assert "; did you mean 'numpy'? Otherwise name one of numpy, torch" in done.err
    assert "register_framework" not in done.err
    assert "module" not in done.err


@pytest.mark.parametrize("words", WRONG)
def test_mistake_gets_one_helpful_line(ferry, words):
    done = ferry(*words.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("arrayferry: ")
    assert done.err.count("\n") == 1
    assert WRONG[words] in done.err


def test_framework_that_is_not_installed(ferry):
    absent = next(name for name in ("cupy", "tensorflow") if name not in arrayferry.frameworks())
    for words in (["explain", "CartPole-v1", "--to", absent], ["doctor", absent]):
        done = ferry(*words)
        assert done.code == 2
        assert "pip install " in done.err
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", ["explain", "bench", "check"])
def test_environment_that_fails(ferry, command):
    done = ferry(command, "helpers.envs:Breaks-v0", "--to", "numpy")
    assert done.code == 1
    assert done.err == "arrayferry: RuntimeError: the motor [left] is gone; --traceback shows where\n"


def test_traceback_on_demand(ferry):
    with pytest.raises(RuntimeError, match="the motor"):
        ferry("explain", "helpers.envs:Breaks-v0", "--to", "numpy", "--traceback")


def test_without_rich(ferry, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("arrayferry.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    done = ferry("doctor")
    assert (done.code, done.err) == (2, "arrayferry: the command needs rich: pip install rich\n")


def test_help(ferry):
    done = ferry("--help")
    assert done.code == 0
    assert all(name in done.out for name in COMMANDS)
    for name, command in COMMANDS.items():
        done = ferry(name, "--help")
        assert done.code == 0
        assert all(f"  {line}" in done.out for line in command.EXAMPLES.splitlines())
        assert "  1    a problem was found" in done.out
        assert max(map(len, done.out.splitlines())) <= 80


def test_no_arguments_print_the_help(ferry):
    assert ferry() == ferry("--help")


def test_examples_in_the_help_parse():
    for name, command in COMMANDS.items():
        for line in command.EXAMPLES.splitlines():
            assert line.startswith(f"arrayferry {name}")
            assert parse(line.split()[1:]).command is command


def test_version(ferry):
    assert ferry("--version").out == f"arrayferry {arrayferry.__version__}\n"
