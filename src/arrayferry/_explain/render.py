"""An explanation for people: as plain text, for a terminal through rich, and as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from arrayferry._explain.explanation import Explanation
    from arrayferry._explain.leaf import Leaf

__all__ = ["as_html", "as_rich", "as_text", "microseconds", "size"]

HEAD = ("leaf", "what it is", "route", "bytes", "µs", "shared or copied, and why")
_NUMBERS = ("bytes", "µs")
_STYLES = {"taken over": "green", "shared": "green", "refused": "red", "left alone": "dim"}


def size(count: int) -> str:
    """Return a number of bytes for people.

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
    """Return seconds as microseconds, with a tenth where it is worth a digit.

    >>> microseconds(1.25e-6), microseconds(0.001234)
    ('1.2', '1234')
    """
    return f"{seconds * 1e6:.{1 if seconds < 1e-4 else 0}f}"


def _row(leaf: Leaf, steps: int) -> tuple[str, ...]:
    shape = "" if leaf.shape is None else f"[{','.join(map(str, leaf.shape))}]"
    becomes = "" if leaf.before == leaf.after else f"→{leaf.after}"
    sometimes = f" ({leaf.seen} of {steps} steps)" if steps and leaf.seen < steps else ""
    return (
        leaf.path,
        leaf.before + shape + becomes,
        "→".join(leaf.route),
        size(leaf.nbytes) if leaf.nbytes else "",
        microseconds(leaf.seconds) if leaf.seconds else "",
        leaf.verdict + sometimes,
    )


def _rows(explanation: Explanation) -> list[tuple[str, ...]]:
    return [_row(leaf, explanation.steps) for leaf in explanation.leaves]


def _totals(explanation: Explanation) -> str:
    amounts = [f"{size(count)} {kind}" for kind, count in explanation.totals.items() if count]
    seconds = explanation.seconds
    times = [f"{microseconds(seconds['out'])} µs out"] if seconds["out"] else []
    if explanation.steps:
        times += [f"{microseconds(seconds['action'])} µs for the action in"]
        times += [f"{microseconds(seconds['step'])} µs for the environment itself"]
    each = "a step" if explanation.steps else "in all"
    return f"{each}: {', '.join([*amounts, *times]) or 'nothing to convert'}"


def as_text(explanation: Explanation) -> str:
    """Return columns of plain text."""
    rows = [HEAD, *_rows(explanation)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = ["  ".join(_padded(*cell) for cell in zip(row, widths, HEAD)).rstrip() for row in rows]
    advice = [f"advice: {text}" for text in explanation.advice]
    return "\n".join([explanation.title, *lines, _totals(explanation), *advice])


def _padded(cell: str, width: int, head: str) -> str:
    return cell.rjust(width) if head in _NUMBERS else cell.ljust(width)


def as_rich(explanation: Explanation) -> RenderableType:
    """Return a table for rich, which fits itself into the terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title=explanation.title, title_justify="left", title_style="bold", box=None, padding=(0, 1))
    for head in HEAD:
        number = head in _NUMBERS
        table.add_column(head, justify="right" if number else "left", no_wrap=number, overflow="fold")
    for leaf, row in zip(explanation.leaves, _rows(explanation)):
        table.add_row(
            *(Text(cell, _STYLES.get(leaf.memory, "") if i == 5 else "") for i, cell in enumerate(row))
        )
    advice = [Text.assemble(("advice: ", "yellow"), text) for text in explanation.advice]
    return Group(table, Text(_totals(explanation), "bold"), *advice)


def as_html(explanation: Explanation) -> str:
    """Return a table for notebooks."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in HEAD)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in _rows(explanation))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    advice = "".join(f"<li>{escape(text)}</li>" for text in explanation.advice)
    return (
        f"<table><caption>{escape(explanation.title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<p>{escape(_totals(explanation))}</p>" + (f"<ul>{advice}</ul>" if advice else "")
    )
