"""The command `arrayferry`: doctor, explain, bench and check. See `arrayferry --help`.

One file for each command, with the same parts in the same order: SUMMARY, EXAMPLES, `add_arguments` and
`run`. What they need beyond NumPy and Gymnasium, rich and matplotlib, is in the extra `cli`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or those of the process, and give its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # it may be of an encoding that lacks our arrows
            stream.reconfigure(errors="replace")
    try:
        from arrayferry.cli.commands import run  # here, so that Ctrl-C is clean while it imports, too

        return run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        print("\narrayferry: stopped", file=sys.stderr)
        return 130
