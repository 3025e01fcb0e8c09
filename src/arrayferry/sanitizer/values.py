"""Are the values what was promised: of one form, in their space, and numbers?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.dtypes import ML_DTYPES
from arrayferry.sanitizer.leaves import Form, Leaf, first_where
from arrayferry.sanitizer.notes import Notes
from arrayferry.sanitizer.report import Severity
from arrayferry.sanitizer.spaces import changeable, misfits

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

# Python's int and NumPy's int64 become the same in most frameworks.
_INTEGERS = {("python", "int", ()), ("numpy", "int64", ())}


class Values:
    """What has been seen so far, for comparison.

    Args:
        notes: where to say what was found.
        single: whether it is a single environment, whose reward and flags become Python numbers.
    """

    def __init__(self, notes: Notes, single: bool) -> None:
        self._notes, self._single = notes, single
        self._forms: dict[str, Form] = {}
        self._paths: set[str] | None = None
        self._space: spaces.Space[Any] | None = None
        self._changeable: tuple[str, ...] = ()

    def look_at(self, leaves: Sequence[Leaf], obs: Any, space: spaces.Space[Any]) -> None:
        """Look at what the environment returned."""
        if space is not self._space:
            self._space, self._paths, self._changeable = space, None, tuple(changeable(space))
        self.look_for_nan(leaves)
        self._compare_forms(leaves)
        try:
            found = list(misfits(space, obs))
        except Exception as error:  # a space of the user's own may do anything
            found = [("obs", f"contains() of its space raised {type(error).__name__}: {error}")]
        for path, why in found:
            self._notes.add("outside-space", "warning", path, why, "repair the observation or its space")

    def look_for_nan(self, leaves: Sequence[Leaf]) -> None:
        """Look for NaN, in actions too; and for infinity in rewards: in observations, the space decides."""
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
        fixed = [leaf for leaf in leaves if not leaf.path.startswith(self._changeable)]
        for leaf in fixed:
            is_flag = self._single and leaf.name in ("terminated", "truncated")
            if leaf.name == "obs" or (leaf.view is not None and not is_flag):
                self._compare_form(leaf)
        paths = {leaf.path for leaf in fixed if leaf.name == "obs"}
        first = self._paths = paths if self._paths is None else self._paths
        self._note_paths("appeared", paths - first, "the first observation did not have it")
        self._note_paths("disappeared", first - paths, "the first observation had it")

    def _note_paths(self, kind: str, paths: set[str], message: str) -> None:
        for path in sorted(paths):
            self._notes.add(kind, "warning", path, message, "return the same leaves each time")

    def _compare_form(self, leaf: Leaf) -> None:
        new = leaf.form
        old = self._forms.get(leaf.path, new)
        if len(self._forms) < _MANY or leaf.path in self._forms:
            self._forms[leaf.path] = new
        if old != new:
            is_number = self._single and leaf.name == "reward"
            harmless = leaf.name == "info" or is_number or {old, new} == _INTEGERS
            for word, was, now in _differences(old, new):
                message = f"its {word} was {was}, and is {now}"
                severity: Severity = "info" if harmless else "warning"
                self._notes.add(f"{word}-changed", severity, leaf.path, message, _HINTS[word])


def _differences(old: Form, new: Form) -> Iterator[tuple[str, Any, Any]]:
    if old[0] != new[0]:  # then the dtype has another name in any case
        yield "framework", f"{old[0]} ({old[1]})", f"{new[0]} ({new[1]})"
        return
    if old[1] != new[1]:
        yield "dtype", old[1], new[1]
    if old[2] != new[2]:
        yield "shape", old[2], new[2]


def _has_any(is_it: Any, view: Any) -> bool:
    """Return whether there is such a number, in one fast pass: the least number is NaN if one is."""
    if not isinstance(view, np.ndarray):
        return isinstance(view, (float, complex, np.inexact)) and bool(is_it(view))
    if view.dtype.kind not in "fc" and view.dtype.name not in ML_DTYPES:
        return False
    return view.size > 0 and bool(is_it(view.min()) or (is_it is np.isinf and is_it(view.max())))


def _present(leaf: Leaf, leaves: Sequence[Leaf]) -> Any:
    """Return where a vector's info has values at all: `_key` is the mask of `key`."""
    shape = np.shape(leaf.view)
    start = leaf.path.rfind('["')
    beside = f'{leaf.path[:start]}["_{leaf.path[start + 2 :]}'
    mask = next((other.view for other in leaves if other.path == beside and other.name == "info"), None)
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != shape[: mask.ndim]:
        return np.ones(shape, bool)
    return mask.reshape(mask.shape + (1,) * (len(shape) - mask.ndim))
