"""Who wrote into memory that the other one sees?

What has changed when a call enters was changed by the agent; what has changed when it returns, by the
environment. If memory is private (`copy` is not False), neither sees the other's: that an environment
reuses its buffers is then worth knowing, and no more.

Only memory that somebody may still write to is watched: an array that nobody but the receiver holds is the
receiver's own (see `leaves`).
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from arrayferry.sanitizer.leaves import Leaf, first_where
from arrayferry.sanitizer.report import FindingLog, Severity

# For how many steps memory that was handed over is watched.
_STEPS = 4

_PROTECTED = "the agent has copies, so there is nothing to do unless you want copy=False"
_UNPROTECTED = "return a copy from the environment, or leave copy at None"
_OWN = "copy it before writing to it, or leave copy at None"


class _Snapshot:
    """One array that was handed over: the leaf, the step, its memory at that time, and who held it."""

    def __init__(self, leaf: Leaf, step: int) -> None:
        self.leaf, self.step = leaf, step
        self.before, self.references = leaf.view.tobytes(), self.count()

    def count(self) -> int:
        """Return the number of references to the array."""
        return getrefcount(self.leaf.value)

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that is the same for two views of the same memory."""
        view = self.leaf.view
        return view.__array_interface__["data"][0], view.shape, view.strides, view.dtype.str

    def has_changed(self) -> bool:
        """Return whether it looks different now. Bytes count: a NaN equals itself, and -0.0 is not 0.0."""
        return bool(self.leaf.view.tobytes() != self.before)

    def change(self) -> str:
        """Return what has changed, in words."""
        view = self.leaf.view
        before = np.frombuffer(self.before, view.dtype).reshape(view.shape)
        pairs = (np.frombuffer(memory, np.uint8) for memory in (view.tobytes(), self.before))
        differs = np.not_equal(*pairs).reshape(*view.shape, -1).any(axis=-1)
        index, where = first_where(differs)
        many = f"{int(differs.sum())} of {differs.size} elements"
        return f"{many} changed, {where} was {before[index]} and is {view[index]}"


class Writes:
    """The memory that agent and environment have got from each other.

    Args:
        log: where findings are collected.
        shared: whether they see the same memory, as with `copy=False`.
        trusted: the first step in which an array that is held is held by the environment itself.
    """

    def __init__(self, log: FindingLog, shared: bool, trusted: int) -> None:
        self._log, self._shared, self._trusted = log, shared, trusted
        self.forget()

    def __getstate__(self) -> dict[str, Any]:
        # A copied or unpickled sanitizer watches nothing: its arrays would be copies that nobody else holds.
        return {**vars(self), "_watched": {}, "_actions": []}

    def forget(self) -> None:
        """Stop watching everything that was handed over so far."""
        self._watched: dict[tuple[Any, ...], _Snapshot] = {}
        self._actions: list[_Snapshot] = []

    def entering(self, action: list[Leaf]) -> None:
        """Note what the agent wrote to during its turn, and remember the action that it hands in."""
        if not self._shared:
            return
        for snapshot in self._watched.values():
            if snapshot.has_changed():
                self._blame_agent(snapshot)
                snapshot.before = snapshot.leaf.view.tobytes()
        # An array that only this call holds was made on the way: the agent does not see it.
        visible = [leaf for leaf in action if leaf.in_place and leaf.held is not False]
        self._actions = [_Snapshot(leaf, self._log.step) for leaf in visible]

    def returned(self, results: list[Leaf]) -> None:
        """Note what the environment wrote to during its turn; watch what it kept and what it hands out."""
        actions, self._actions = self._actions, []
        kept = [action for action in actions if action.count() > action.references]
        for snapshot in (*self._watched.values(), *actions):
            if snapshot.has_changed():
                self._blame_environment(snapshot)
                self._watched.pop(snapshot.key, None)
        handed_out = {id(leaf.value) for leaf in results}
        for snapshot in kept:
            if id(snapshot.leaf.value) not in handed_out:
                self._watch(snapshot.leaf)
        for leaf in results:
            if leaf.in_place and leaf.held is not False:  # else it is the agent's own, or out of sight
                self._watch_result(leaf)
        oldest = self._log.step - _STEPS
        self._watched = {key: snapshot for key, snapshot in self._watched.items() if snapshot.step > oldest}

    def _watch_result(self, leaf: Leaf) -> None:
        if self._shared and leaf.held and leaf.name == "obs" and self._log.step >= self._trusted:
            message = "the environment keeps this memory: what the agent writes here, the environment reads"
            self._log.add("kept", "info", leaf.path, message, _OWN)
        if self._shared or not self._log.has("environment-wrote", leaf.path):  # else known and harmless
            self._watch(leaf)

    def _watch(self, leaf: Leaf) -> None:
        """Watch a leaf, in place of an older one with the same memory; within a step, the first counts."""
        new = _Snapshot(leaf, self._log.step)
        previous = self._watched.get(new.key)
        if previous is None or previous.step != new.step:
            self._watched[new.key] = new

    def _blame_agent(self, snapshot: _Snapshot) -> None:
        name, held = snapshot.leaf.name, snapshot.leaf.held
        if name == "action":
            what = f"its action of step {snapshot.step}, which the environment has kept"
            self._blame("agent", "error", snapshot, what, _OWN)
        elif not held or snapshot.step >= self._trusted:
            holds = "still holds" if held else "may still hold"
            what = f"{name} of step {snapshot.step}, which the environment {holds}"
            self._blame("agent", "error" if held else "warning", snapshot, what, _OWN)

    def _blame_environment(self, snapshot: _Snapshot) -> None:
        what = f"{snapshot.leaf.name} of step {snapshot.step}, which it had handed out"
        if snapshot.leaf.name == "action":
            what = f"the agent's action of step {snapshot.step}"
        hint = _UNPROTECTED if self._shared else _PROTECTED
        self._blame("environment", "error" if self._shared else "info", snapshot, what, hint)

    def _blame(self, who: str, severity: Severity, snapshot: _Snapshot, what: str, hint: str) -> None:
        kind, path = f"{who}-wrote", snapshot.leaf.path
        # Describing the change takes long for large arrays, and is done only once.
        change = "" if self._log.has(kind, path) else snapshot.change()
        self._log.add(kind, severity, path, f"the {who} wrote into {what}: {change}", hint)
