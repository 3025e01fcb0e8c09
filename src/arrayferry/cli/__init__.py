"""The command `arrayferry`: doctor, explain, bench and check. See `arrayferry --help`.

One module for each command, with the same parts: SUMMARY, EXAMPLES, `add_arguments` and `run`.
The extra `cli` installs what they need beyond NumPy and Gymnasium: rich.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process, and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # its encoding may lack our arrows
            stream.reconfigure(errors="replace")
    try:
        from arrayferry.cli.commands import run  # here, so that Ctrl-C is clean during the imports too

        return run(list(sys.argv[1:] if argv is None else argv))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "rich":
            raise
        print("arrayferry: the command needs rich: pip install rich", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\narrayferry: stopped", file=sys.stderr)
        return 130
