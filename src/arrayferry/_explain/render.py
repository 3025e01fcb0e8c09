"""Tables, plain and for rich, and numbers in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


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


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], styles: Iterable[str] = ()) -> Table:
    """Return a table for rich, with a style for each row; only its last column wraps."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold")
    for head in heads[:-1]:
        is_number = head.startswith(">")
        table.add_column(head.removeprefix(">"), justify="right" if is_number else "left", no_wrap=True)
    table.add_column(heads[-1], overflow="fold")
    for row, style in zip_longest(rows, styles, fillvalue=""):
        table.add_row(*map(Text, row), style=style)
    return table


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the headings and each row of a table as text in columns.

    >>> for line in columns(["what", ">bytes", "why"], [["obs", "16", "nobody else holds it"]]):
    ...     print(line)
    what  bytes  why
    obs      16  nobody else holds it

    Args:
        heads: the headings; a column whose heading starts with `>` aligns right.
        rows: the text of each cell.
    """
    cells = [[head.removeprefix(">") for head in heads], *rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    signs = [">" if head.startswith(">") else "<" for head in heads]
    layout = "  ".join(f"{{:{sign}{width}}}" for sign, width in zip(signs, widths))
    return [layout.format(*row).rstrip() for row in cells]
