"""Are the values what was promised: of one form, in their space, and numbers?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES, dtype_name
from arrayferry.sanitizer.leaves import Form, Leaf, first_where
from arrayferry.sanitizer.members import Judge, changeable, judge
from arrayferry.sanitizer.notes import Notes
from arrayferry.sanitizer.report import Severity

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["Values"]

# A program that has new keys in every info must not make the table grow with it.
_MANY = 10_000

_HINTS = {
    "framework": "return arrays of one framework from reset() and step()",
    "dtype": "cast it in the environment, or with dtypes= on the way",
    "shape": "pad it, or say so with a Sequence or Graph space",
}
_SOURCES = {"action": "look at the policy", "reward": "look at the reward's formula"}


class Values:
    """What has been seen so far, for comparison. A copy of it forgets only what it can find out again.

    Args:
        notes: where to say what was found.
        single: whether it is a single environment, whose reward and flags become Python's own.
    """

    def __init__(self, notes: Notes, single: bool) -> None:
        self._notes, self._single = notes, single
        self._forms: dict[str, Form] = {}
        self._paths: set[str] | None = None
        self._space: spaces.Space[Any] | None = None
        self._judge: Judge = lambda value, path: iter(())
        self._changeable: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        # Not every dtype can be pickled; its name can.
        forms = {
            path: (owner, dtype_name(dtype), shape) for path, (owner, dtype, shape) in self._forms.items()
        }
        return {**vars(self), "_space": None, "_judge": None, "_forms": forms}

    def look_at(self, leaves: Sequence[Leaf], obs: Any, space: spaces.Space[Any]) -> None:
        """Look at what the environment returned."""
        if space is not self._space:
            self._space, self._paths = space, None
            self._judge, self._changeable = judge(space), tuple(changeable(space, "obs"))
        self.look_for_nan(leaves)
        self._compare_forms(leaves)
        try:
            misfits = list(self._judge(obs, "obs"))
        except Exception as error:  # a space of the user's own may do anything
            misfits = [("obs", f"contains() of the space raised {type(error).__name__}: {error}")]
        for path, why in misfits:
            hint = "repair the observation or its space"
            self._notes.add("outside-space", "warning", path, f"it is outside its space: {why}", hint)

    def look_for_nan(self, leaves: Sequence[Leaf]) -> None:
        """Also in actions. Infinity is looked for in rewards only: in observations, the space judges it."""
        for leaf in leaves:
            if _has_any(np.isnan, leaf.view):
                self._note_number("nan", np.isnan, leaf, leaves)
            if leaf.name == "reward" and _has_any(np.isinf, leaf.view):
                self._note_number("inf", np.isinf, leaf, leaves)

    def _note_number(self, kind: str, is_it: Any, leaf: Leaf, leaves: Sequence[Leaf]) -> None:
        bad = is_it(leaf.view) & _present(leaf, leaves)
        if bad.any():
            severity: Severity = "warning" if leaf.name == "info" else "error"
            message = f"{first_where(bad)[1]} is {'NaN' if kind == 'nan' else 'infinite'}"
            hint = _SOURCES.get(leaf.name, "look for it in the environment")
            self._notes.add(kind, severity, leaf.path, message, hint)

    def _compare_forms(self, leaves: Sequence[Leaf]) -> None:
        seen = set()
        for leaf in leaves:
            if leaf.name == "obs":
                if leaf.path.startswith(self._changeable):
                    continue
                seen.add(leaf.path)
            elif leaf.view is None or (self._single and leaf.name in ("terminated", "truncated")):
                continue
            self._compare_form(leaf)
        if self._paths is None:
            self._paths = seen
        if seen != self._paths:
            hint = "return the same leaves each time"
            for path in sorted(seen - self._paths):
                self._notes.add("appeared", "warning", path, "the first observation did not have it", hint)
            for path in sorted(self._paths - seen):
                self._notes.add("disappeared", "warning", path, "the first observation had it", hint)

    def _compare_form(self, leaf: Leaf) -> None:
        new = leaf.form
        old = self._forms.get(leaf.path, new)
        if len(self._forms) < _MANY or leaf.path in self._forms:
            self._forms[leaf.path] = new
        if old != new:
            harmless = leaf.name == "info" or (self._single and leaf.name == "reward") or _is_int(old, new)
            severity: Severity = "info" if harmless else "warning"
            for word, was, now in _differences(old, new):
                message = f"its {word} was {was}, and is {now}"
                self._notes.add(f"{word}-changed", severity, leaf.path, message, _HINTS[word])


def _differences(old: Form, new: Form) -> Iterator[tuple[str, Any, Any]]:
    dtypes = dtype_name(old[1]), dtype_name(new[1])
    if old[0] != new[0]:  # then the dtype has another name in any case
        yield "framework", f"{old[0]} ({dtypes[0]})", f"{new[0]} ({dtypes[1]})"
        return
    if dtypes[0] != dtypes[1]:
        yield "dtype", *dtypes
    if old[2] != new[2]:
        yield "shape", old[2], new[2]


def _is_int(old: Form, new: Form) -> bool:
    """Python's int and NumPy's int64, which become the same in most frameworks."""
    names = {(form[0], dtype_name(form[1]), form[2]) for form in (old, new)}
    return names == {("python", "int", ()), ("numpy", "int64", ())}


def _has_any(is_it: Any, view: Any) -> bool:
    """Whether there is such a number, in one fast pass: the least of some numbers is NaN if one is."""
    if not isinstance(view, np.ndarray):
        return isinstance(view, (float, complex, np.inexact)) and bool(is_it(view))
    if view.dtype.kind not in "fc" and view.dtype.name not in ML_DTYPES:
        return False
    return view.size > 0 and bool(is_it(view.min()) or (is_it is np.isinf and is_it(view.max())))


def _present(leaf: Leaf, leaves: Sequence[Leaf]) -> Any:
    """Where a vector's info has values at all: `_key` is the mask of `key`."""
    shape = np.shape(leaf.view)
    start = leaf.path.rfind('["')
    beside = f'{leaf.path[:start]}["_{leaf.path[start + 2 :]}'
    mask = next((other.view for other in leaves if other.path == beside and other.name == "info"), None)
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != shape[: mask.ndim]:
        return np.ones(shape, bool)
    return mask.reshape(mask.shape + (1,) * (len(shape) - mask.ndim))
