"""An explanation as text, plain and for rich, and the tables of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

    from arrayferry._explain.explanation import Explanation

__all__ = ["as_rich", "as_text", "size", "table"]

# A heading that starts with `>` is for numbers, which align right.
_HEADS = ("leaf", "what it is", "route", ">bytes", ">µs", "shared or copied, and why")

_STYLES = {"taken over": "green", "shared": "green", "refused": "red", "left alone": "dim"}

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
    """Return an explanation as plain text."""
    lines = _columns(_HEADS, _rows(explanation))
    advice = [f"advice: {text}" for text in explanation.advice]
    return "\n".join([explanation.title, *lines, _totals(explanation), *advice])


def as_rich(explanation: Explanation, width: int) -> Iterator[Text]:
    """Yield the parts of an explanation for rich."""
    from rich.text import Text

    styles = [_STYLES.get(leaf.memory, "") for leaf in explanation.leaves]
    yield Text(explanation.title, "bold")
    yield table(_HEADS, _rows(explanation), styles, width)
    yield Text(_totals(explanation), "bold")
    for advice in explanation.advice:
        yield Text.assemble(("advice: ", "yellow"), advice)


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], styles: Iterable[str] = (), width: int = 0
) -> Text:
    """Return a table for rich, with a style for each row; it fits into a width, by default the terminal's."""
    from rich.console import Console
    from rich.text import Text

    lines = _columns(heads, rows, (width or Console().width) - 1)
    parts = zip_longest(lines, ["bold", *styles], fillvalue="")
    return Text("\n").join([Text(indent(line, " "), style) for line, style in parts])


def _columns(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int = 0) -> list[str]:
    """Return the headings and each row of a table as text in columns.

    >>> for line in _columns(["what", ">bytes", "why"], [["obs", "16", "nobody else holds it"]], 25):
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
    lines = []
    for *others, last in cells:
        padded = (
            cell.rjust(size) if head.startswith(">") else cell.ljust(size)
            for head, cell, size in zip(heads, others, widths)
        )
        start = "".join(f"{cell}  " for cell in padded)
        limit = max(width, len(start) + _NARROWEST) if width else len(start + last) + 1
        indents: Any = {"initial_indent": start, "subsequent_indent": " " * len(start)}
        lines.append(fill(last, limit, **indents, break_on_hyphens=False) or start.rstrip())
    return lines
