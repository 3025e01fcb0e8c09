"""The arguments of `arrayferry`, and what happens when they are wrong or something fails."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from contextlib import nullcontext
from types import ModuleType
from typing import Any, NoReturn

import arrayferry
from arrayferry.cli import bench, check, doctor, explain
from arrayferry.cli.screen import Outcome, one_line, show, stdout_to_stderr
from arrayferry.errors import DeviceError, KeptWarning, NotInstalledError, OptionError, UnknownFrameworkError

FINE, FOUND, USAGE = 0, 1, 2  # and 130 for Ctrl-C

# What the user asked for does not exist here.
_MISUSE = (UnknownFrameworkError, NotInstalledError, DeviceError, OptionError)

COMMANDS: dict[str, ModuleType] = {"doctor": doctor, "explain": explain, "bench": bench, "check": check}


class _Parser(argparse.ArgumentParser):
    """A parser whose error is one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"arrayferry: {message}; see {self.prog} --help\n")


def run(words: list[str]) -> int:
    """Run the command with these arguments and return its exit code."""
    try:
        arguments = parse(words or ["--help"])
    except SystemExit as end:  # argparse has printed the help, or what is wrong
        return int(end.code or 0)
    try:
        if not arguments.traceback:
            warnings.filterwarnings("ignore", module="gymnasium")
            warnings.filterwarnings("ignore", category=KeptWarning)
        with stdout_to_stderr() if arguments.json else nullcontext():
            outcome: Outcome = arguments.command.run(arguments)
        show(outcome, as_json=arguments.json)
        return FINE if outcome.ok else FOUND
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except Exception as error:
        if arguments.traceback:
            raise
        print(f"arrayferry: {one_line(error)}", file=sys.stderr)
        return USAGE if isinstance(error, _MISUSE) else FOUND


def parse(words: list[str]) -> argparse.Namespace:
    """Parse the arguments; raise SystemExit after printing the help, or one line that says what is wrong."""
    summary = "Inspect how arrays get from environments to agents, and back, on this machine."
    first = "\n".join(command.EXAMPLES.splitlines()[0] for command in COMMANDS.values())
    parser = _Parser(prog="arrayferry", **_help(summary, first))
    parser.add_argument("--version", action="version", version=f"arrayferry {arrayferry.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        summary = f"{command.SUMMARY[0].upper()}{command.SUMMARY[1:]}."
        own = commands.add_parser(name, help=command.SUMMARY, **_help(summary, command.EXAMPLES))
        command.add_arguments(own)
        own.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
        own.add_argument("--traceback", action="store_true", help="show where an error comes from")
        own.set_defaults(command=command)
    return parser.parse_args(words)


def _help(summary: str, examples: str) -> dict[str, Any]:
    lines = "\n".join(f"  {line}" for line in examples.splitlines())
    epilog = f"""\
examples:
{lines}

exit codes:
  0    fine
  1    a problem was found, or something failed
  2    wrong usage, or something is not installed
  130  stopped with Ctrl-C"""
    formatter = argparse.RawDescriptionHelpFormatter
    return {"description": summary, "epilog": epilog, "formatter_class": formatter, "allow_abbrev": False}
