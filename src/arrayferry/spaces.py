"""A Gymnasium space, seen from another framework; and what a member of a space looks like.

`fitter` answers: which object would `space.sample()` have given in place of this action?
`seen_from` gives a space whose samples are another framework's arrays.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from functools import cache, singledispatch
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces

from arrayferry._core.convert import Converter, is_registered
from arrayferry._core.dtypes import ML_DTYPES, cast_for, first_lost
from arrayferry._core.framework import Array, TypeTable, dtype_name, owner_of
from arrayferry._core.swift import swift
from arrayferry.errors import FerryError

__all__ = ["Fit", "fitter", "numpy_converter", "seen_from", "shortcut"]

# From a value of the environment's framework to a member of the space; a value that has not a
# member's shape or kind comes back as it is, for the environment to judge.
Fit = Callable[[Any], Any]

_S = TypeVar("_S", bound="spaces.Space[Any]")

# A value may take a dtype of a later kind, never of an earlier one: no action is rounded to an integer.
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def fitter(space: spaces.Space[Any], to_env: Converter) -> Fit:
    """What makes members of `space`, in the framework of `to_env`, of values in that framework.

    >>> fit = fitter(spaces.Dict(go=spaces.Discrete(4), how=spaces.Box(-1, 1, (2,))), Converter("numpy"))
    >>> fit({"go": np.array(3, np.int32), "how": np.array([0.25, 0.5])})
    {'go': np.int64(3), 'how': array([0.25, 0.5 ], dtype=float32)}
    """
    return _fitter(space, to_env)


@singledispatch
def _fitter(space: spaces.Space[Any], to_env: Converter) -> Fit:
    return lambda value: value  # Text, and spaces that nobody here has heard of


@_fitter.register(spaces.Box)
@_fitter.register(spaces.MultiBinary)
@_fitter.register(spaces.MultiDiscrete)
def _(space: Any, to_env: Converter) -> Fit:
    shape, dtype = space.shape, np.dtype(space.dtype)
    cast = _caster(dtype, to_env)

    def fit(value: Any) -> Any:
        if type(value) is np.ndarray and value.shape == shape:
            return value if value.dtype is dtype else cast(value)
        if isinstance(value, (list, tuple)):
            value = _stacked(value, to_env)
        return cast(value) if _shape(value) == shape else value

    return fit


@_fitter.register(spaces.Discrete)
def _(space: spaces.Discrete[Any], to_env: Converter) -> Fit:
    dtype = np.dtype(space.dtype)
    cast = _caster(dtype, to_env)
    if to_env.framework.name != "numpy":
        return lambda value: cast(value) if _shape(value) == () else value

    def fit(value: Any) -> Any:
        if type(value) is int:
            value = np.asarray(value)
        if _shape(value) != ():
            return value
        member = cast(value)
        return dtype.type(member) if member.dtype == dtype else value

    return fit


# Up to so many members of a Discrete space are made beforehand.
_FEW = 10_000


def shortcut(space: spaces.Space[Any], to_env: Converter, fit: Fit, long: Fit) -> Fit:
    """The short way for the commonest actions, of any framework, into NumPy; `long` for all others.

    Args:
        space: the action space.
        to_env: into the environment's framework.
        fit: the space's fitter, for values that are there.
        long: from any action to a member.
    """
    if to_env.framework.name != "numpy" or to_env.copy is False:
        return long
    if isinstance(space, spaces.Discrete) and space.n <= _FEW and space.start == 0:
        return _short_integer(space, long)
    if isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        return _short_array(space, fit, long)
    return long


def _short_array(space: Any, fit: Fit, long: Fit) -> Fit:
    """From an array of another framework, copied at once."""
    copiers = _copiers
    if swift is not None:
        enter: Fit = swift.Entry(copiers, long, None, fit, np.dtype(space.dtype)).enter
        return enter

    def short(action: Any) -> Any:
        copier = copiers[type(action)]
        if copier is not None and (array := copier(action)) is not None and array.dtype.kind in _KINDS:
            return fit(array)
        return long(action)

    return short


def _short_integer(space: spaces.Discrete[Any], long: Fit) -> Fit:
    """From one integer, by way of a list of the members."""
    members = [*map(np.dtype(space.dtype).type, range(int(space.n)))]
    integers = _integers
    if swift is not None:
        enter: Fit = swift.Entry(integers, long, members, None, None).enter
        return enter

    def short(action: Any) -> Any:
        try:
            number = integers[type(action)](action)
            if number >= 0:  # Python counts others from the end
                return members[number]
        except Exception:  # no integer, more than one, no member, or refused: the long way will say so
            pass
        return long(action)

    return short


def _integer_of(cls: type) -> Any:
    """What makes a Python integer of one integer, be it in an array without axes; of all else, no integer."""
    if is_registered(cls):
        return None
    if cls is int:
        return int
    if cls is np.ndarray:
        return lambda array: array.tolist() if array.dtype.kind in "biu" else None
    if issubclass(cls, np.generic):
        return cls.item if np.dtype(cls).kind in "biu" else None
    owner = owner_of(cls)
    return owner and owner.item(cls)


def _copier_of(cls: type) -> Any:
    """What makes a NumPy array of another framework's, if that is quick."""
    owner = owner_of(cls)
    return owner and owner.snapshot(cls) if not is_registered(cls) else None


# For all spaces, so that the first step of a wrapper takes no longer than the second.
_integers = TypeTable(_integer_of)
_copiers = TypeTable(_copier_of)


@_fitter.register(spaces.Dict)
def _(space: spaces.Dict, to_env: Converter) -> Fit:
    return _by_key({key: fitter(inner, to_env) for key, inner in space.spaces.items()})


def _by_key(fits: dict[str, Fit]) -> Fit:
    def fit(value: Any) -> Any:
        if not isinstance(value, Mapping) or value.keys() != fits.keys():
            return value
        return {key: fits[key](value[key]) for key in fits}

    return fit


@_fitter.register(spaces.Tuple)
def _(space: spaces.Tuple[Any], to_env: Converter) -> Fit:
    return _in_order([fitter(inner, to_env) for inner in space.spaces])


def _in_order(fits: list[Fit]) -> Fit:
    def fit(value: Any) -> Any:
        if not isinstance(value, (tuple, list)) or len(value) != len(fits):
            return value
        return tuple(one(item) for one, item in zip(fits, value))

    return fit


@_fitter.register(spaces.Sequence)
def _(space: spaces.Sequence, to_env: Converter) -> Fit:
    if space.stack:
        return _stack_fitter(space.feature_space, to_env)
    one = fitter(space.feature_space, to_env)
    return lambda value: tuple(map(one, value)) if isinstance(value, (tuple, list)) else value


@_fitter.register(spaces.Graph)
def _(space: spaces.Graph, to_env: Converter) -> Fit:
    nodes = _stack_fitter(space.node_space, to_env)
    edges = _stack_fitter(space.edge_space, to_env) if space.edge_space is not None else _as_it_is
    links = _stack_fitter(spaces.Discrete(2, dtype=np.int32), to_env)  # as Graph.sample makes them

    def fit(value: Any) -> Any:
        if not isinstance(value, tuple) or len(value) != 3:
            return value
        return spaces.GraphInstance(nodes(value[0]), edges(value[1]), links(value[2]))

    return fit


@_fitter.register(spaces.OneOf)
def _(space: spaces.OneOf[Any], to_env: Converter) -> Fit:
    fits = [fitter(inner, to_env) for inner in space.spaces]

    def fit(value: Any) -> Any:
        try:
            which, chosen = value
            which = np.int64(operator.index(which))  # not int(), which would round
            return which, fits[which](chosen)
        except (TypeError, ValueError, IndexError):
            return value

    return fit


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of an array; None for anything else."""
    return tuple(value.shape) if hasattr(value, "dtype") else None


def _as_it_is(value: Any) -> Any:
    return value


def _stack_fitter(space: spaces.Space[Any], to_env: Converter) -> Fit:
    """For members stacked along a first axis of any length: only the structure and dtypes are known."""
    if isinstance(space, spaces.Dict):
        return _by_key({key: _stack_fitter(inner, to_env) for key, inner in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return _in_order([_stack_fitter(inner, to_env) for inner in space.spaces])
    if space.dtype is None:
        return _as_it_is
    cast = _caster(np.dtype(space.dtype), to_env)
    return lambda value: cast(value) if hasattr(value, "dtype") else value


def _stacked(value: Any, to_env: Converter) -> Any:
    """A list of numbers as an array; any other as it is."""
    try:
        array = np.asarray(_to_numpy(value))
    except (ValueError, TypeError, FerryError):
        return value
    return to_env(array) if array.dtype.kind in _KINDS else value


def _caster(dtype: np.dtype[Any], to_env: Converter) -> Fit:
    """From an array to one of the space's dtype, as far as the environment's framework has it."""
    framework, device = to_env.framework, to_env.device
    ways: dict[tuple[Any, frozenset[str]], Fit] = {}

    def way(old: Any, available: frozenset[str]) -> Fit:
        right = cast_for(dtype, available)
        if right is None or dtype_name(old) == right.dtype.name:
            return _as_it_is
        if framework.name == "numpy" and np.can_cast(old, dtype, "safe"):
            return lambda value: np.asarray(value).astype(dtype)
        return lambda value: _cast_or_leave(value, dtype, to_env)

    def cast(value: Any) -> Any:
        key = value.dtype, framework.dtypes(device)
        if key not in ways:
            ways[key] = way(*key)
        return ways[key](value)

    return cast


def _cast_or_leave(value: Any, dtype: np.dtype[Any], to_env: Converter) -> Any:
    old = value if type(value) is np.ndarray else np.asarray(_to_numpy(value))
    kind = "f" if old.dtype.name in ML_DTYPES else old.dtype.kind
    if _KINDS.get(kind, 9) > _KINDS.get(dtype.kind, -1):
        return value
    with np.errstate(all="ignore"):
        new: Array = old.astype(dtype)
    # An out-of-range number is no member: the environment shall see it as it is.
    if first_lost(old, new):
        return value
    return new if to_env.framework.name == "numpy" else to_env(new)


@cache
def numpy_converter() -> Converter:
    """Into NumPy, where numbers stay numbers."""
    return Converter("numpy", _numbers=False)


def _to_numpy(value: Any) -> Any:
    return numpy_converter()(value)


@cache
def _probabilities() -> Converter:
    return Converter("numpy", dtypes={"float32": "float64"}, _numbers=False)


def _is_in_rounded(space: Any, value: Any) -> bool:
    """Whether an array of a narrower float lies between the bounds of a Box, rounded as it was."""
    if not isinstance(space, spaces.Box) or _shape(value) != space.shape:
        return False
    dtype = value.dtype
    if dtype.kind != "f" or space.dtype.kind != "f" or dtype.itemsize >= space.dtype.itemsize:
        return False
    with np.errstate(over="ignore"):
        low, high = space.low.astype(dtype), space.high.astype(dtype)
    return bool(np.all(low <= value) and np.all(value <= high))


def seen_from(space: _S, converter: Converter) -> _S:
    """The same space to `isinstance`, whose samples the converter has converted.

    The original is asked for every sample and seed, so both draw from the same random numbers.

    >>> space = seen_from(spaces.Discrete(4, seed=1), Converter("torch"))
    >>> space.sample(), isinstance(space, spaces.Discrete), space.sample() in space
    (tensor(1), True, True)
    """
    kind: Any = type(space)
    seen: Any = object.__new__(_seen_class(kind))
    parts = {name: _see(part, converter) for name, part in vars(space).items()}
    vars(seen).update(parts, _original=space, _converter=converter)
    result: _S = seen
    return result


def _see(part: Any, converter: Converter) -> Any:
    """A part of a space: another space, several of them, or something else that stays as it is."""
    if isinstance(part, spaces.Space):
        return seen_from(part, converter)
    if isinstance(part, dict):
        return {key: _see(one, converter) for key, one in part.items()}
    if isinstance(part, tuple):
        return tuple(_see(one, converter) for one in part)
    return part


@cache
def _seen_class(cls: Any) -> Any:
    if issubclass(cls, _Seen):  # seen already, from a third framework
        return cls
    return type(cls.__name__, (_Seen, cls), {"__module__": __name__, "__doc__": cls.__doc__})


class _Seen:
    """What a space does differently when it is seen from another framework."""

    _original: spaces.Space[Any]
    _converter: Converter

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """A member, converted; masks may be of any framework."""
        how = {"mask": _to_numpy(mask), "probability": _probabilities()(probability)}
        given = {name: value for name, value in how.items() if value is not None}
        return self._converter.unbox([self._original.sample(**given)])[0]

    def contains(self, x: Any) -> bool:
        """Whether the value, seen from NumPy, is a member; up to rounding, where the target rounds."""
        space: Any = self._original
        if isinstance(space, (spaces.Dict, spaces.Tuple)):
            return bool(super().contains(x))  # type: ignore[misc]  # their parts are seen, too
        try:
            value = _to_numpy(x)
        except FerryError:
            return False
        fit = fitter(space, numpy_converter())
        return bool(space.contains(value) or space.contains(fit(value)) or _is_in_rounded(space, value))

    def seed(self, seed: Any = None) -> Any:
        """Seed the original."""
        return self._original.seed(seed)

    @property
    def np_random(self) -> np.random.Generator:
        """The original's."""
        return self._original.np_random

    def __reduce__(self) -> tuple[Any, ...]:
        return seen_from, (self._original, self._converter)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return seen_from(copy.deepcopy(self._original, memo), self._converter)
