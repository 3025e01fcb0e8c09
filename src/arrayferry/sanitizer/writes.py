"""Who wrote into memory that the other one sees?

What has changed when a call enters was changed by the agent; what has changed when it returns, by the
environment. If memory is private (`copy` is not False), nobody sees the other's: that an environment
fills its buffers again is then worth knowing, and no more.
"""

from __future__ import annotations

from sys import getrefcount

from arrayferry.sanitizer.leaves import Leaf
from arrayferry.sanitizer.memory import Loan, Loans
from arrayferry.sanitizer.notes import Notes
from arrayferry.sanitizer.report import Severity

__all__ = ["Writes"]

_PROTECTED = "the agent has copies, so there is nothing to do unless you want copy=False"
_UNPROTECTED = "return a copy from the environment, or leave copy at None"
_OWN = "copy it before writing to it, or leave copy at None"


class Writes:
    """The memory that agent and environment have from each other.

    Args:
        notes: where to say what was found.
        shared: whether they see the same memory: `copy=False`.
        trusted: the first step in which an array that is held is held by the environment itself.
        loans: what was handed over.
    """

    def __init__(self, notes: Notes, shared: bool, trusted: int, loans: Loans) -> None:
        self._notes, self._shared, self._trusted, self._loans = notes, shared, trusted, loans
        self._actions: list[Loan] = []
        self._counts: list[int] = []

    def entering(self, action: list[Leaf]) -> None:
        """Note what the agent wrote to in its turn, and lend what it hands in."""
        if not self._shared:
            return
        for loan in self._loans:
            if loan.changed():
                self._blame_agent(loan)
                loan.bytes_then = Loan.of(loan.leaf, loan.step).bytes_then
        # An array that only this call holds was made on the way: the agent does not see it.
        lent = [leaf for leaf in action if leaf.in_place and leaf.held is not False]
        self._actions = [Loan.of(leaf, self._notes.step) for leaf in lent if self._fits(leaf)]
        self._counts = self._count()

    def returned(self, results: list[Leaf]) -> None:
        """Note what the environment wrote to in its turn, and lend what it kept and what it hands out."""
        counts = self._count()
        actions, self._actions = self._actions, []
        for loan in (*self._loans, *actions):
            if loan.changed():
                self._blame_environment(loan)
                self._loans.drop(loan)
        handed_out = {id(leaf.value) for leaf in results}
        for loan, before, after in zip(actions, self._counts, counts):
            if after > before and id(loan.leaf.value) not in handed_out:
                self._loans.add(Loan.of(loan.leaf, loan.step))
        for leaf in results:
            if leaf.in_place and leaf.held is not False:  # else it is the agent's own, or out of sight
                self._lend(leaf)

    def forget(self) -> None:
        """Stop watching all that was handed over so far."""
        self._loans.clear()
        self._actions = []

    def _count(self) -> list[int]:
        return [getrefcount(loan.leaf.value) for loan in self._actions]

    def _lend(self, leaf: Leaf) -> None:
        step = self._notes.step
        if self._shared and leaf.held and leaf.name == "obs" and step >= self._trusted:
            message = "the environment keeps this memory: what the agent writes here, the environment reads"
            self._notes.add("kept", "info", leaf.path, message, _OWN)
        is_known = not self._shared and self._notes.has("environment-wrote", leaf.path)  # and does no harm
        if not is_known and self._fits(leaf):
            self._loans.add(Loan.of(leaf, step))

    def _fits(self, leaf: Leaf) -> bool:
        fits = bool(leaf.view.nbytes <= self._loans.limit)
        if not fits:
            message = f"its {leaf.view.nbytes:,} bytes are too many to watch for writes"
            self._notes.add("unwatched", "info", leaf.path, message, "Sanitizer(env, limit=...)")
        return fits

    def _blame_agent(self, loan: Loan) -> None:
        leaf, held = loan.leaf, loan.leaf.held
        if leaf.name == "action":
            what = f"its action of step {loan.step}, which the environment has kept"
            self._blame("agent", "error", loan, what, _OWN)
        elif not held or loan.step >= self._trusted:
            holds = "still holds" if held else "may still hold"
            what = f"{leaf.name} of step {loan.step}, which the environment {holds}"
            self._blame("agent", "error" if held else "warning", loan, what, _OWN)

    def _blame_environment(self, loan: Loan) -> None:
        what = f"{loan.leaf.name} of step {loan.step}, which it had handed out"
        if loan.leaf.name == "action":
            what = f"the agent's action of step {loan.step}"
        hint = _UNPROTECTED if self._shared else _PROTECTED
        self._blame("environment", "error" if self._shared else "info", loan, what, hint)

    def _blame(self, who: str, severity: Severity, loan: Loan, what: str, hint: str) -> None:
        kind, path = f"{who}-wrote", loan.leaf.path
        # To say what has changed takes long for large arrays, and is said once.
        change = "" if self._notes.has(kind, path) else loan.change()
        self._notes.add(kind, severity, path, f"the {who} wrote into {what}: {change}", hint)
