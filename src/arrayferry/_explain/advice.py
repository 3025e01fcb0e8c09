"""What a user can do about what was found: a rule for each case, and nothing when none applies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from arrayferry._core import ownership
from arrayferry._core.convert import Converter
from arrayferry._explain.leaves import Leaf
from arrayferry._explain.render import size

__all__ = ["advice_for"]

# Below this many bytes, a copy costs less than thinking about it.
_WORTH_IT = 64 << 10


def advice_for(leaves: Sequence[Leaf], converter: Converter, *, vector: bool = False) -> tuple[str, ...]:
    """Return the advice for these leaves, the most important first."""
    return tuple(_rules([leaf for leaf in leaves if not leaf.path.startswith("action")], converter, vector))


def _rules(out: Sequence[Leaf], converter: Converter, vector: bool) -> Iterator[str]:
    target = converter.framework
    for leaf in out:
        if leaf.hint:
            yield f"{leaf.path}: {leaf.hint}"
    wide = [leaf for leaf in out if leaf.after == "float64" and leaf.shape]
    if wide and not converter.dtypes:
        total = size(sum(leaf.nbytes for leaf in wide))
        yield f"float64 in {_named(wide)} ({total}): dtypes={{'float64': 'float32'}} halves it"
    narrowed = [leaf for leaf in out if leaf.reason == "no-dtype"]
    if narrowed and target.widening_hint:
        yield f"{_named(narrowed)}: narrowed. To keep all bits: {target.widening_hint}"
    copied = [leaf for leaf in out if leaf.reason in ("held", "container-held") and leaf.nbytes >= _WORTH_IT]
    if copied and not converter.target.alignment and converter.device is None:
        total = size(sum(leaf.nbytes for leaf in copied))
        why = "copied, because others hold it"
        yield f"{_named(copied)}: {total} {why}. copy=False shares it, if neither side writes"
    if vector and any(re.match(r'info\["final_obs"\]\[\d+\]', leaf.path) for leaf in out):
        yield "final_obs is an array of objects: dense_final=True makes it one batch"
    if not ownership.REFCOUNTS_RELIABLE:
        yield "on this Python every leaf is copied: its reference counts prove nothing"


def _named(leaves: Sequence[Leaf]) -> str:
    more = f" and {len(leaves) - 2} more" if len(leaves) > 2 else ""
    return ", ".join(leaf.path for leaf in leaves[:2]) + more
