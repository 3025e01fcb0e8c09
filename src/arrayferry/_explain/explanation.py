"""What was found out about all leaves, with its totals and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from arrayferry._core.convert import Converter
from arrayferry._explain import render
from arrayferry._explain.advice import advice_for
from arrayferry._explain.leaves import Leaf, record
from arrayferry.errors import FerryError

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Explanation", "merged", "of_value"]

# How often a value is converted to find the time that it takes.
_LAPS = 5


@dataclass(frozen=True)
class Explanation:
    """What becomes of each leaf, and why. Print it, or show it in a notebook.

    Attributes:
        title: what was explained.
        leaves: each of them.
        advice: what would make it faster, smaller or right; may be empty.
        seconds: that everything together took at best, by name: `out`, and of an environment `step` (the
            environment's own) and `action`.
        steps: how many steps were looked at; 0 when it was a value.
    """

    title: str
    leaves: tuple[Leaf, ...]
    advice: tuple[str, ...]
    seconds: Mapping[str, float]
    steps: int = 0

    @property
    def ok(self) -> bool:
        """Whether no leaf was refused."""
        return all(leaf.memory != "refused" for leaf in self.leaves)

    @property
    def totals(self) -> dict[str, int]:
        """The bytes of a step, or of the value, by what became of them."""
        totals: Counter[str] = Counter()
        for leaf in self.leaves:
            totals[leaf.memory] += leaf.nbytes
        return dict(totals)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data, for machines."""
        leaves = [{**asdict(leaf), "verdict": leaf.verdict} for leaf in self.leaves]
        return {
            "title": self.title,
            "steps": self.steps,
            "ok": self.ok,
            "leaves": leaves,
            "bytes": self.totals,
            "seconds": dict(self.seconds),
            "advice": list(self.advice),
        }

    def __str__(self) -> str:
        """As a table of plain text."""
        return render.as_text(self)

    __repr__ = __str__

    def __rich__(self) -> RenderableType:
        """As a table for rich."""
        return render.as_rich(self)

    def _repr_html_(self) -> str:
        return render.as_html(self)


def of_value(box: list[Any], converter: Converter) -> Explanation:
    """Explain the value in a list, which holds it alone if nobody else does."""
    first = record(converter, box, ("value",), holder="you")
    # What is taken over once may be held by the target for a while: the first time tells the truth.
    laps = [record(converter, box, ("value",), holder="you") for _ in range(_LAPS)]
    leaves = tuple(replace(leaf, seconds=min(same)) for leaf, *same in zip(first, *map(_times, laps)))
    seconds = min(_lap(converter, box) for _ in range(_LAPS))
    title = f"a value to {converter.framework.name}"
    return Explanation(title, leaves, advice_for(leaves, converter), {"out": seconds})


def _times(leaves: Iterable[Leaf]) -> list[float]:
    return [leaf.seconds for leaf in leaves]


def _lap(converter: Converter, box: list[Any]) -> float:
    start = perf_counter()
    try:
        converter._convert_box(box)
    except FerryError:  # it is among the leaves
        return 0.0
    return perf_counter() - start


def merged(passes: Iterable[list[Leaf]]) -> tuple[Leaf, ...]:
    """One leaf for each path: what it was most of the time, or refused if it ever was; and its best time."""
    by_path: dict[str, list[Leaf]] = {}
    for leaves in passes:
        for leaf in leaves:
            by_path.setdefault(leaf.path, []).append(leaf)
    return tuple(_usual(same) for same in by_path.values())


def _usual(same: list[Leaf]) -> Leaf:
    same = [leaf for leaf in same if leaf.memory == "refused"] or same
    kinds = Counter((leaf.before, leaf.after, leaf.memory, leaf.why) for leaf in same)
    kind, count = kinds.most_common(1)[0]
    alike = [leaf for leaf in same if (leaf.before, leaf.after, leaf.memory, leaf.why) == kind]
    return replace(alike[-1], seconds=min(_times(alike)), seen=count)
