"""The arguments of `arrayferry`, and what happens when they are wrong or something fails."""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from difflib import get_close_matches
from typing import NoReturn, Protocol

import arrayferry
from arrayferry.cli import bench, check, doctor, explain
from arrayferry.cli.exits import EXIT_CODES, USAGE, code_of, one_line
from arrayferry.cli.screen import Screen

__all__ = ["COMMANDS", "parsed", "run"]


class Command(Protocol):
    """What the file of a command has."""

    @property
    def SUMMARY(self) -> str:
        """What it is for, in a line."""
        ...

    @property
    def EXAMPLES(self) -> str:
        """How it is called, a line each."""
        ...

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its own arguments."""
        ...

    def run(self, arguments: argparse.Namespace, screen: Screen) -> int:
        """Do it, and give the exit code."""
        ...


COMMANDS: dict[str, Command] = {
    "doctor": doctor,
    "explain": explain,
    "bench": bench,
    "check": check,
}


class _Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"arrayferry: {message}; see {self.prog} --help\n")


def run(words: list[str]) -> int:
    """Run the command with these arguments, and give its exit code."""
    try:
        arguments = parsed(words)
    except SystemExit as end:  # argparse has said it, be it the help or what is wrong
        return int(end.code or 0)
    try:
        if not arguments.traceback:
            warnings.filterwarnings("ignore", module="gymnasium")
            warnings.filterwarnings("ignore", category=arrayferry.errors.KeptWarning)
        command: Command = arguments.command
        return command.run(arguments, Screen(as_json=arguments.json))
    except BrokenPipeError:  # whoever read this has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if arguments.traceback:
            raise
        print(f"arrayferry: {one_line(error)}", file=sys.stderr)
        return code_of(error)


def parsed(words: list[str]) -> argparse.Namespace:
    """The arguments, understood; or one line that says what is wrong, and SystemExit."""
    parser = _parser()
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        close = get_close_matches(name, COMMANDS, 1)
        meant = f"did you mean {close[0]}?" if close else f"the commands are {', '.join(COMMANDS)}"
        parser.error(f"there is no command {name!r}: {meant}")
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        known = re.findall(r"--[a-z][a-z-]*", arguments.usage)
        close = get_close_matches(unknown[0].partition("=")[0], known, 1)
        meant = f": did you mean {close[0]}?" if close else ""
        parser.error(f"{name} does not know {unknown[0]!r}{meant}")
    return arguments


def _parser() -> _Parser:
    shape = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="arrayferry",
        description="Look at how arrays cross between environments and agents on this machine.",
        epilog=f"examples:\n{_lines('arrayferry doctor', *_first_examples())}\n\n{EXIT_CODES}",
        formatter_class=shape,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"arrayferry {arrayferry.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        epilog = f"examples:\n{_lines(*command.EXAMPLES.splitlines())}\n\n{EXIT_CODES}"
        own = commands.add_parser(
            name,
            help=command.SUMMARY,
            description=f"{command.SUMMARY[0].upper()}{command.SUMMARY[1:]}.",
            epilog=epilog,
            formatter_class=shape,
            allow_abbrev=False,
        )
        command.add_arguments(own)
        own.add_argument("--json", action="store_true", help="the result for machines, and nothing else")
        own.add_argument("--traceback", action="store_true", help="when something fails, show where")
        own.set_defaults(command=command, usage=own.format_usage())
    return parser


def _first_examples() -> list[str]:
    return [command.EXAMPLES.splitlines()[0] for name, command in COMMANDS.items() if name != "doctor"]


def _lines(*lines: str) -> str:
    return "\n".join(f"  {line}" for line in lines)
