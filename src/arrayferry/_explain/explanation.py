"""What was found out about all leaves, with totals and what to do about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from arrayferry._core.convert import Converter
from arrayferry._explain.leaves import Leaf
from arrayferry._explain.render import columns, microseconds, size, table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

_HEADS = ("leaf", "what it is", "route", ">bytes", ">µs", "shared or copied, and why")

_STYLES = {"taken over": "green", "shared": "green", "refused": "red", "left alone": "dim"}

_TIMES = {"out": "out", "action": "for the action in", "step": "for the environment itself"}

# Below this many bytes, a copy costs less than thinking about it.
_WORTH_IT = 64 << 10


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
        leaves = [{**asdict(leaf), "verdict": leaf.verdict} for leaf in self.leaves]
        return {**asdict(self), "ok": self.ok, "leaves": leaves, "bytes": self.totals}

    def _row(self, leaf: Leaf) -> tuple[str, ...]:
        shape = "" if leaf.shape is None else f"[{','.join(map(str, leaf.shape))}]"
        becomes = "" if leaf.before == leaf.after else f"→{leaf.after}"
        nbytes = size(leaf.nbytes) if leaf.nbytes else ""
        time = microseconds(leaf.seconds) if leaf.seconds else ""
        seen = f" ({leaf.seen} of {self.steps} steps)" if leaf.seen < self.steps else ""
        what = leaf.before + shape + becomes
        return leaf.path, what, "→".join(leaf.route), nbytes, time, leaf.verdict + seen

    def _summary(self) -> str:
        amounts = [f"{size(count)} {kind}" for kind, count in self.totals.items() if count]
        times = [(self.seconds.get(name), words) for name, words in _TIMES.items()]
        amounts += [f"{microseconds(seconds)} µs {words}" for seconds, words in times if seconds]
        return f"{'a step' if self.steps else 'in all'}: {', '.join(amounts) or 'nothing to convert'}"

    def __str__(self) -> str:
        """Return a table of plain text."""
        lines = [self.title, *columns(_HEADS, map(self._row, self.leaves)), self._summary()]
        return "\n".join([*lines, *(f"advice: {text}" for text in self.advice)])

    __repr__ = __str__

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the parts for rich."""
        from rich.text import Text

        yield Text(self.title, "bold")
        styles = [_STYLES.get(leaf.memory, "") for leaf in self.leaves]
        yield table(_HEADS, map(self._row, self.leaves), styles)
        yield Text(self._summary(), "bold")
        for advice in self.advice:
            yield Text.assemble(("advice: ", "yellow"), advice)


def advice_for(leaves: Sequence[Leaf], converter: Converter) -> Iterator[str]:
    """Yield what a user can do about these leaves, the most important first; nothing if no rule applies."""
    out = [leaf for leaf in leaves if not leaf.path.startswith("action")]
    for leaf in out:
        if leaf.hint:
            yield f"{leaf.path}: {leaf.hint}"
    wide = [leaf for leaf in out if leaf.after == "float64" and leaf.shape]
    if wide and not converter.dtypes:
        yield f"float64 in {_named(wide)} ({_size(wide)}): dtypes={{'float64': 'float32'}} halves it"
    narrowed = [leaf for leaf in out if leaf.reason == "no-dtype"]
    if narrowed and converter.framework.widening_hint:
        yield f"{_named(narrowed)}: narrowed. To keep all bits: {converter.framework.widening_hint}"
    copied = [leaf for leaf in out if leaf.reason in ("held", "container-held") and leaf.nbytes >= _WORTH_IT]
    if copied and not converter.target.alignment and converter.device is None:
        why = "copied, because others hold it. copy=False shares it, if neither side writes"
        yield f"{_named(copied)}: {_size(copied)} {why}"
    if any(re.match(r'info\["final_obs"\]\[\d+\]', leaf.path) for leaf in out):
        yield "final_obs is an array of objects: dense_final=True makes it one batch"


def _named(leaves: Sequence[Leaf]) -> str:
    more = f" and {len(leaves) - 2} more" if len(leaves) > 2 else ""
    return ", ".join(leaf.path for leaf in leaves[:2]) + more


def _size(leaves: Sequence[Leaf]) -> str:
    return size(sum(leaf.nbytes for leaf in leaves))
