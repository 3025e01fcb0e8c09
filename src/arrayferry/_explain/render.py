"""Tables, plain and for rich, and numbers in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from textwrap import fill, indent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

# The last column is never narrower than this, in characters.
_NARROWEST = 12


def size(count: int) -> str:
    """Return a number of bytes in readable form.

    >>> size(16), size(28224), size(1 << 20)
    ('16 B', '27.6 KB', '1 MB')
    """
    amount, unit = float(count), "B"
    for larger in ("KB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.{0 if amount == int(amount) or amount >= 100 else 1}f} {unit}"


def microseconds(seconds: float) -> str:
    """Return a time as a number of microseconds."""
    return f"{seconds * 1e6:.{1 if seconds < 1e-4 else 0}f}"


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], styles: Iterable[str] = (), width: int = 0
) -> Text:
    """Return a table for rich, with a style for each row; it fits into a width, by default the terminal's."""
    from rich.console import Console
    from rich.text import Text

    lines = columns(heads, rows, (width or Console().width) - 1)
    parts = zip_longest(lines, ["bold", *styles], fillvalue="")
    return Text("\n").join([Text(indent(line, " "), style) for line, style in parts])


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int = 0) -> list[str]:
    """Return the headings and each row of a table as text in columns.

    >>> for line in columns(["what", ">bytes", "why"], [["obs", "16", "nobody else holds it"]], 25):
    ...     print(line)
    what  bytes  why
    obs      16  nobody else
                 holds it

    Args:
        heads: the headings; a column whose heading starts with `>` aligns right.
        rows: the text of each cell.
        width: the width in which the last column has to fit, by more lines; 0 for any.
    """
    cells = [[head.removeprefix(">") for head in heads], *rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    signs = [">" if head.startswith(">") else "<" for head in heads[:-1]]
    layout = "".join(f"{{:{sign}{width}}}  " for sign, width in zip(signs, widths))
    lines = []
    for *others, last in cells:
        start = layout.format(*others)
        limit = max(width, len(start) + _NARROWEST) if width else len(start + last) + 1
        hanging = " " * len(start)
        line = fill(last, limit, initial_indent=start, subsequent_indent=hanging, break_on_hyphens=False)
        lines.append(line or start.rstrip())
    return lines
