"""Memory on loan: what was handed over, as it was then; and what has become of it.

Only memory that somebody may still write is lent: an array that nobody but the receiver holds is the
receiver's own (see `leaves`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from arrayferry._core.framework import Array
from arrayferry.sanitizer.leaves import Leaf, first_where

__all__ = ["Loan", "Loans"]


@dataclass(slots=True, eq=False)
class Loan:
    """One array that was handed over: the leaf, the step, and a copy of its memory at that time."""

    leaf: Leaf
    step: int
    bytes_then: Array

    @classmethod
    def of(cls, leaf: Leaf, step: int) -> Loan:
        """Remember what the memory looks like now."""
        return cls(leaf, step, _bytes(leaf.view).copy())

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for two views of the same memory."""
        view = self.leaf.view
        return view.__array_interface__["data"][0], view.shape, view.strides, view.dtype.str

    def changed(self) -> bool:
        """Return whether it looks different now. Bytes count: a NaN equals itself, and -0.0 is not 0.0."""
        one, other = _bytes(self.leaf.view), self.bytes_then
        if one.size % 8 == 0:  # eight at a time
            one, other = one.view(np.uint64), other.view(np.uint64)
        return not (one == other).all()

    def change(self) -> str:
        """Return what has changed, in words."""
        view = self.leaf.view
        then = self.bytes_then.view(view.dtype).reshape(view.shape)
        differs = (_bytes(view) != self.bytes_then).reshape(*view.shape, -1).any(axis=-1)
        index, where = first_where(differs)
        many = f"{int(differs.sum())} of {differs.size} elements"
        return f"{many} changed, {where} was {then[index]} and is {view[index]}"


class Loans:
    """The newest loans, of at most so many steps and so many bytes. A copy of it has none."""

    def __init__(self, steps: int, limit: int) -> None:
        self.steps, self.limit = steps, limit
        self._loans: dict[tuple[Any, ...], Loan] = {}
        self._bytes = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # The arrays would be copied, and be nobody's.
        return Loans, (self.steps, self.limit)

    def __iter__(self) -> Iterator[Loan]:
        return iter(list(self._loans.values()))

    def add(self, loan: Loan) -> None:
        """Watch it, in place of an older loan of the same memory; one of the same step comes first."""
        known = self._loans.get(loan.key)
        if known is not None and known.step == loan.step:
            return
        self.drop(loan)
        self._loans[loan.key] = loan
        self._bytes += loan.bytes_then.nbytes
        for old in self:
            if loan.step - old.step < self.steps and self._bytes <= self.limit:
                break
            self.drop(old)

    def drop(self, loan: Loan) -> None:
        """Stop watching this memory."""
        if old := self._loans.pop(loan.key, None):
            self._bytes -= old.bytes_then.nbytes

    def clear(self) -> None:
        """Stop watching all of it."""
        self._loans.clear()
        self._bytes = 0


def _bytes(view: Array) -> Array:
    """Return the memory as one row of bytes; a copy of it where it is not in one piece."""
    return np.ascontiguousarray(view).reshape(-1).view(np.uint8)
