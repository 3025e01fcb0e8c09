"""The command `arrayferry`: doctor, explain, bench, check and demo. See `arrayferry --help`.

One file for each command, with the same parts in the same order: SUMMARY, EXAMPLES, `add_arguments` and
`run`. What they need beyond NumPy and Gymnasium, rich and matplotlib, is in the extra `cli`.
"""

from __future__ import annotations

from arrayferry.cli.main import main

__all__ = ["main"]
