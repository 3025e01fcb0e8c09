"""One leaf: what it was, what it became, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from arrayferry._core.convert import Converter
from arrayferry._core.dtypes import dtype_name
from arrayferry._core.leaf import route
from arrayferry._core.registry import framework_of
from arrayferry._core.walk import KEEP
from arrayferry._explain.reasons import REASONS, have_common_memory
from arrayferry.errors import FerryError

__all__ = ["Leaf", "kind_of", "leaf_of"]


@dataclass(frozen=True)
class Leaf:
    """One leaf, as it crossed.

    Attributes:
        path: where it is, such as `obs["camera"]`.
        shape: of an array; None for anything else.
        before: its dtype, or its type if it is no array.
        after: the same of what it became.
        route: the frameworks that it went through, such as `("jax", "numpy", "torch")`.
        memory: `taken over` without a copy, `shared`, `copied`, `cast`, `converted` from or to a number,
            `left alone` or `refused`.
        reason: why, as a code: a key of `REASONS`.
        why: why, in words.
        nbytes: of the original.
        seconds: what it takes alone, at best; of an action of many leaves, each has an equal share.
        seen: in how many steps this was so.
        hint: of a refused leaf, what to do.
    """

    path: str
    shape: tuple[int, ...] | None
    before: str
    after: str
    route: tuple[str, ...]
    memory: str
    reason: str
    why: str
    nbytes: int
    seconds: float = 0.0
    seen: int = 1
    hint: str = ""

    @property
    def verdict(self) -> str:
        """What became of it and why, in a few words."""
        if self.memory == "converted":
            return f"converted {self.why}"
        return f"{'cast to ' + self.after if self.memory == 'cast' else self.memory}: {self.why}"


def leaf_of(
    path: str,
    value: Any,
    found: Any,
    converter: Converter,
    reason: str,
    holder: str,
    error: FerryError | None = None,
) -> Leaf:
    """Return what became of a value; `reason` is why it was copied, if it was."""
    if error is not None:
        memory, reason = "refused", "refused"
    elif found is KEEP:
        memory, reason, found = "left alone", "no-counterpart", value
    else:
        memory, reason = _outcome(value, found, converter, reason)
    source, target = framework_of(type(value)), converter.framework
    before, after = kind_of(value), kind_of(found)
    why = REASONS[reason].format(
        type=type(value).__name__,
        before=before,
        after=after,
        source=source and source.name,
        target=target.name,
        device=converter.device_name,
        alignment=target._fast.alignment,
        holder=holder,
        holds="hold" if holder == "you" else "holds",
        error=error and error.what,
    )
    through: tuple[str, ...] = ()
    if reason == "number":
        through = route(value, source, target)[0], "numpy" if isinstance(found, np.generic) else "python"
    elif memory not in ("left alone", "refused"):
        through = route(value, source, target)
    shape = getattr(value, "shape", None)
    shape = None if shape is None else tuple(shape)
    hint = error.hint if error else ""
    return Leaf(path, shape, before, after, through, memory, reason, why, _nbytes(value), hint=hint)


def _outcome(value: Any, found: Any, converter: Converter, reason: str) -> tuple[str, str]:
    """Return what became of the memory of a leaf that crossed, and the code of the reason."""
    if framework_of(type(found)) is None:
        return ("left alone", "no-array") if found is value else ("converted", "number")
    if framework_of(type(value)) is None:
        return "converted", "array"
    if converter.copy is False:  # else it would have been refused
        return "shared", "copy-false"
    if have_common_memory(value, found):
        return "taken over", "unheld"
    if (before := kind_of(value)) != kind_of(found):
        return "cast", "dtypes" if before in converter.dtypes else "no-dtype"
    return "copied", reason


def kind_of(value: Any) -> str:
    """Return the dtype of an array or NumPy scalar, the type of anything else."""
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else dtype_name(dtype)


def _nbytes(value: Any) -> int:
    try:
        return int(value.nbytes)
    except Exception:  # not all frameworks have it, nor all arrays values
        return 0
