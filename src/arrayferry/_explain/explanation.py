"""What was found out about all leaves, with its totals and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from arrayferry._core.convert import Converter
from arrayferry._explain import render
from arrayferry._explain.advice import advice_for
from arrayferry._explain.leaf import Leaf
from arrayferry._explain.leaves import fastest, record

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Explanation", "explain_value", "merged"]


@dataclass(frozen=True)
class Explanation:
    """What becomes of each leaf, and why. Print it, or show it in a notebook.

    Attributes:
        title: what was explained.
        leaves: each of them.
        advice: what would make it faster, smaller or right; may be empty.
        seconds: what all of it takes at best, by name: `out`, and of an environment `action` and `step`
            (the environment's own). `action` and `out` are what the wrapper adds to a step.
        steps: how many steps were looked at; 0 if it was a value.
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
        """Return all of it as plain data, for JSON."""
        return {
            "title": self.title,
            "steps": self.steps,
            "ok": self.ok,
            "leaves": [{**asdict(leaf), "verdict": leaf.verdict} for leaf in self.leaves],
            "bytes": self.totals,
            "seconds": dict(self.seconds),
            "advice": list(self.advice),
        }

    def __str__(self) -> str:
        """Return a table of plain text."""
        return render.as_text(self)

    __repr__ = __str__

    def __rich__(self) -> RenderableType:
        """Return a table for rich."""
        return render.as_rich(self)

    def _repr_html_(self) -> str:
        return render.as_html(self)


def explain_value(box: list[Any], converter: Converter) -> Explanation:
    """Explain the value in a list, which holds it alone if nobody else does."""
    leaves = tuple(record(converter, box, ("value",), holder="you"))
    refused = any(leaf.memory == "refused" for leaf in leaves)
    seconds = 0.0 if refused else fastest(converter._convert_box, lambda: box)
    title = f"a value to {converter.framework.name}"
    return Explanation(title, leaves, advice_for(leaves, converter), {"out": seconds})


def merged(passes: Iterable[list[Leaf]]) -> tuple[Leaf, ...]:
    """Return one leaf for each path: what it was most of the time, or refused if it ever was."""
    by_path: dict[str, list[Leaf]] = {}
    for leaf in (leaf for leaves in passes for leaf in leaves):
        by_path.setdefault(leaf.path, []).append(leaf)
    return tuple(map(_usual, by_path.values()))


def _usual(same: list[Leaf]) -> Leaf:
    same = [leaf for leaf in same if leaf.memory == "refused"] or same
    kinds = [(leaf.before, leaf.after, leaf.memory, leaf.reason) for leaf in same]
    kind, seen = Counter(kinds).most_common(1)[0]
    alike = [leaf for leaf, its_kind in zip(same, kinds) if its_kind == kind]
    return replace(alike[-1], seconds=min(leaf.seconds for leaf in alike), seen=seen)
