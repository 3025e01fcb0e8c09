"""An explanation for people: as plain text, and for a terminal through rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from arrayferry._explain.explanation import Explanation

__all__ = ["as_rich", "as_text", "rich_table", "size"]

# A heading that starts with `>` is for numbers, which align right.
_HEADS = ("leaf", "what it is", "route", ">bytes", ">µs", "shared or copied, and why")
_STYLES = {"taken over": "green", "shared": "green", "refused": "red", "left alone": "dim"}


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


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.{1 if seconds < 1e-4 else 0}f}"


def _rows(explanation: Explanation) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for leaf in explanation.leaves:
        shape = "" if leaf.shape is None else f"[{','.join(map(str, leaf.shape))}]"
        becomes = "" if leaf.before == leaf.after else f"→{leaf.after}"
        nbytes = size(leaf.nbytes) if leaf.nbytes else ""
        time = _microseconds(leaf.seconds) if leaf.seconds else ""
        seen = f" ({leaf.seen} of {explanation.steps} steps)" if leaf.seen < explanation.steps else ""
        what = leaf.before + shape + becomes
        rows.append((leaf.path, what, "→".join(leaf.route), nbytes, time, leaf.verdict + seen))
    return rows


def _totals(explanation: Explanation) -> str:
    amounts = [f"{size(count)} {kind}" for kind, count in explanation.totals.items() if count]
    times = {name: f"{_microseconds(seconds)} µs" for name, seconds in explanation.seconds.items() if seconds}
    words = {"out": "out", "action": "for the action in", "step": "for the environment itself"}
    amounts += [f"{times[name]} {text}" for name, text in words.items() if name in times]
    each = "a step" if explanation.steps else "in all"
    return f"{each}: {', '.join(amounts) or 'nothing to convert'}"


def as_text(explanation: Explanation) -> str:
    """Return columns of plain text."""
    rows = [[head.removeprefix(">") for head in _HEADS], *_rows(explanation)]
    columns = []
    for head, cells in zip(_HEADS, zip(*rows)):
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if head[0] == ">" else cell.ljust(width) for cell in cells])
    lines = ["  ".join(row).rstrip() for row in zip(*columns)]
    advice = [f"advice: {text}" for text in explanation.advice]
    return "\n".join([explanation.title, *lines, _totals(explanation), *advice])


def as_rich(explanation: Explanation) -> RenderableType:
    """Return a table for rich, which fits itself into the terminal."""
    from rich.console import Group
    from rich.markup import escape
    from rich.text import Text

    rows = []
    for leaf, row in zip(explanation.leaves, _rows(explanation)):
        *others, verdict = map(escape, row)
        rows.append([*others, f"[{_STYLES.get(leaf.memory, 'none')}]{verdict}[/]"])
    table = rich_table(explanation.title, _HEADS, rows, wraps=("leaf", "what it is", "route"))
    advice = [Text.assemble(("advice: ", "yellow"), text) for text in explanation.advice]
    return Group(table, Text(_totals(explanation), "bold"), *advice)


def rich_table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], wraps: Sequence[str] = ()
) -> Table:
    """Return a table of rich's markup. A column whose heading starts with `>` aligns right.

    The last column and those in `wraps` wrap: rich shrinks every column that does, and breaks words.
    """
    from rich.markup import escape
    from rich.table import Table

    title = escape(title)
    table = Table(title=title or None, title_justify="left", title_style="bold", box=None, padding=(0, 1))
    for head in heads:
        justify, name = ("right", head[1:]) if head.startswith(">") else ("left", head)
        fixed = head not in (*wraps, heads[-1])
        table.add_column(name, justify=justify, no_wrap=fixed, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    return table
