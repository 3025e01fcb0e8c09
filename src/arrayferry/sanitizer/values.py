"""Are the values what was promised: of one form, in their space, and numbers?"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from arrayferry._core.containers import container_of
from arrayferry._core.dtypes import ML_DTYPES
from arrayferry._core.interruptions import ignore_errors, is_from_handler
from arrayferry._core.registry import describe
from arrayferry._core.walk import key_text
from arrayferry.sanitizer.leaves import Form, Leaf, first_where
from arrayferry.sanitizer.report import FindingLog, Severity
from arrayferry.spaces.members import to_numpy
from arrayferry.spaces.structure import ARRAY_SPACES, has_fixed_shape, subspaces

_HINTS = {
    "framework": "return arrays of one framework from reset() and step()",
    "dtype": "cast it in the environment, or with dtypes= on the way",
    "shape": "pad it, or say so with a Sequence or Graph space",
}
_SOURCES = {"action": "look at the policy", "reward": "look at the reward's formula"}

# Python's int and NumPy's int64 become the same in most frameworks.
_INTEGERS = {("python", "int", ()), ("numpy", "int64", ())}

# A program with new keys in every info must not make the table of forms grow without bound.
_MANY = 10_000

# A value with its path and its space.
_Part = tuple[str, spaces.Space[Any], Any]


class Values:
    """The forms that have been seen so far, for comparison.

    Args:
        log: where findings are collected.
        single: whether it is a single environment, whose reward and flags become Python numbers.
    """

    def __init__(self, log: FindingLog, single: bool) -> None:
        self._log, self._single = log, single
        self._forms: dict[str, Form] = {}

    def look_at(self, leaves: Sequence[Leaf], obs: Any, space: spaces.Space[Any]) -> None:
        """Look at the forms of what the environment returned, and whether the observation is in its space."""
        parts = list(parts_of(space, obs))
        changeable = tuple(path for path, part, _ in parts if not has_fixed_shape(part))
        for leaf in leaves:
            is_flag = self._single and leaf.name in ("terminated", "truncated")
            is_looked_at = leaf.name == "obs" or (leaf.view is not None and not is_flag)
            if is_looked_at and not leaf.path.startswith(changeable):
                self._compare_form(leaf)
        for path, why in misfits(parts):
            self._log.add("outside-space", "warning", path, why, "fix the observation or its space")

    def look_for_nan(self, leaves: Sequence[Leaf]) -> None:
        """Look for NaN, in actions too, and for infinity in rewards; in observations, the space decides."""
        for leaf in leaves:
            self._look_for("nan", "NaN", np.isnan, leaf, leaves)
            if leaf.name == "reward":
                self._look_for("inf", "infinite", np.isinf, leaf, leaves)

    def _look_for(self, kind: str, word: str, is_it: Any, leaf: Leaf, leaves: Sequence[Leaf]) -> None:
        for path, numbers in _numbers(leaf.path, leaf.value if leaf.view is None else leaf.view):
            bad = is_it(numbers)
            if bad.any() and (self._single or (bad := bad & _present(leaf, bad.shape, leaves)).any()):
                severity: Severity = "warning" if leaf.name == "info" else "error"
                hint = _SOURCES.get(leaf.name, "look for it in the environment")
                self._log.add(kind, severity, path, f"{first_where(bad)[1]} is {word}", hint)

    def _compare_form(self, leaf: Leaf) -> None:
        new = leaf.form
        old = self._forms.get(leaf.path, new)
        if len(self._forms) < _MANY or leaf.path in self._forms:
            self._forms[leaf.path] = new
        # The first of framework, dtype and shape that has changed decides the hint.
        word = next((word for word, was, now in zip(_HINTS, old, new) if was != now), "")
        if word:
            is_number = self._single and leaf.name == "reward"
            harmless = leaf.name == "info" or is_number or {old, new} == _INTEGERS
            severity: Severity = "info" if harmless else "warning"
            message = f"it was {_shown_form(*old)}, and is {_shown_form(*new)}"
            self._log.add(f"{word}-changed", severity, leaf.path, message, _HINTS[word])


def _shown_form(framework: str, dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}{list(shape) if shape else ''} {framework}"


def _numbers(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what may be NaN in a value: the fields of structured arrays, what masked ones do not mask, ..."""
    if isinstance(value, (np.ndarray, np.void)) and value.dtype.names is not None:
        for name in value.dtype.names:
            yield from _numbers(f'{path}["{name}"]', value[name])
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        for index, element in np.ndenumerate(value):
            yield from _numbers(f"{path}{list(index)}", element)
    elif isinstance(value, (float, complex, np.ndarray, np.generic)):
        array = np.ma.filled(value, 0) if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
        if array.dtype.kind in "fc" or array.dtype.name in ML_DTYPES:
            yield path, array


def _present(leaf: Leaf, shape: tuple[int, ...], leaves: Sequence[Leaf]) -> Any:
    """Return where a vector's info has values at all: `_key` is the mask of `key`."""
    start = leaf.path.rfind('["')
    beside = f'{leaf.path[:start]}["_{leaf.path[start + 2 :]}'
    mask = next((other.view for other in leaves if other.path == beside and other.name == "info"), None)
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != shape[: mask.ndim]:
        return np.ones(shape, bool)
    return mask.reshape(mask.shape + (1,) * (len(shape) - mask.ndim))


# ---- is it in its space? --------------------------------------------------------------------------------


def parts_of(space: spaces.Space[Any], value: Any, path: str = "obs") -> Iterator[_Part]:
    """Yield the parts of a value, as far as Dict and Tuple spaces divide it."""
    inner = subspaces(space)
    # A subclass with a `contains` of its own has its own idea of a member.
    if type(space).contains is spaces.Dict.contains:
        fits = isinstance(value, dict) and value.keys() == inner.keys()
    else:
        fits = isinstance(value, (tuple, list)) and type(space).contains is spaces.Tuple.contains
        fits = fits and len(value) == len(inner)
    if not (inner and fits):
        yield path, space, value
        return
    for key, part in inner.items():
        yield from parts_of(part, value[key], path + key_text(key))


def misfits(parts: Iterable[_Part]) -> Iterator[tuple[str, str]]:
    """Yield the path of each part that its space does not contain, and why.

    >>> space = spaces.Dict(camera=spaces.Box(0, 255, (2, 2), np.uint8), lives=spaces.Discrete(3))
    >>> for path, why in misfits(parts_of(space, {"camera": np.zeros((2, 3), np.uint8), "lives": 2})):
    ...     print(path, "-", why)
    obs["camera"] - it is not in Box(0, 255, (2, 2), uint8): it is uint8[2,3] numpy, 0 to 0
    """
    for path, space, value in parts:
        try:
            if not _contains(space, value):
                yield path, f"it is not in {space}: it is {_shown(value)}"
        except Exception as error:  # a user's own space may do anything
            if is_from_handler(error):
                raise
            yield path, f"contains() of its space raised {type(error).__name__}: {error}"


def _contains(space: spaces.Space[Any], value: Any) -> bool:
    if isinstance(space, ARRAY_SPACES) and container_of(type(value)) is not None:
        return False  # Gymnasium makes an array of a list and looks at that; the agent gets a list
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a space's own warnings do not matter here
        with ignore_errors():  # some fail on arrays of another framework
            if space.contains(value):
                return True
        return bool(space.contains(_without_nan(to_numpy(value), space)))


def _without_nan(value: Any, space: Any) -> Any:
    """Return a Box's array with the lowest member in place of NaN, which is a finding of its own."""
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    if not is_float or not isinstance(space, spaces.Box) or value.shape != space.shape:
        return value
    return np.where(np.isnan(value), space.low.astype(value.dtype), value)


def _shown(value: Any) -> str:
    """Return a number itself, the keys of a dict, or the description of an array with its range."""
    if isinstance(value, (int, float, np.number)):
        return str(value)
    if isinstance(value, dict):
        return f"a dict of {list(value)}"
    if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iuf":
        return f"{describe(value)}, {value.min()} to {value.max()}"
    return describe(value)
