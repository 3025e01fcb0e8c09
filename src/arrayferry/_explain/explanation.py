"""What was found out about all leaves, with totals and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from arrayferry._explain import render
from arrayferry._explain.leaves import Leaf

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

__all__ = ["Explanation"]


@dataclass(frozen=True)
class Explanation:
    """What becomes of each leaf, and why. It prints as a table.

    Attributes:
        title: what was explained.
        leaves: what became of each leaf.
        advice: what would make it faster, smaller or right; may be empty.
        seconds: the shortest times, by name: `out`, and for an environment `action` and `step` (the
            environment's own). `action` and `out` are what the wrapper adds to a step.
        steps: how many steps were looked at; 0 if it was a value.
    """

    title: str
    leaves: tuple[Leaf, ...]
    advice: tuple[str, ...]
    seconds: Mapping[str, float]
    steps: int = 0

    @property
    def ok(self) -> bool:
        """Whether no leaf was refused; this is what `bool(explanation)` returns."""
        return all(leaf.memory != "refused" for leaf in self.leaves)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def totals(self) -> dict[str, int]:
        """The bytes of a step, or of the value, by what became of them."""
        totals: Counter[str] = Counter()
        for leaf in self.leaves:
            totals[leaf.memory] += leaf.nbytes
        return dict(totals)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        return {
            **asdict(self),
            "ok": self.ok,
            "leaves": [{**asdict(leaf), "verdict": leaf.verdict} for leaf in self.leaves],
            "bytes": self.totals,
        }

    def __str__(self) -> str:
        """Return a table of plain text."""
        return render.as_text(self)

    __repr__ = __str__

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the parts for rich."""
        return render.as_rich(self, options.max_width)
