"""Actions as members of a space: which object would `space.sample()` have returned in place of this one?"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from arrayferry._core.convert import ArrayConverter, Converter
from arrayferry._core.dtypes import can_hold, cast_exactly, cast_for, dtype_name, promotes
from arrayferry._core.interruptions import is_from_handler
from arrayferry._core.registry import describe
from arrayferry._core.walk import key_text
from arrayferry.errors import FerryError, SharingError
from arrayferry.spaces.structure import ARRAY_SPACES, EDGE_LINKS

__all__ = ["Caster", "member_caster", "numpy_converter", "shape_of", "stacked", "to_numpy"]

# From a value of the environment's framework to a member of the space; a value that does not have a
# member's shape or kind comes back as it is, for the environment to refuse.
Caster: TypeAlias = Callable[[Any], Any]


def member_caster(space: spaces.Space[Any], to_env: Converter, *, any_length: bool = False) -> Caster:
    """Return a function that turns values in the framework of `to_env` into members of `space`.

    >>> cast = member_caster(
    ...     spaces.Dict(go=spaces.Discrete(4), how=spaces.Box(-1, 1, (2,))), Converter("numpy")
    ... )
    >>> cast({"go": np.array(3, np.int32), "how": np.array([0.25, 0.5])})
    {'go': np.int64(3), 'how': array([0.25, 0.5 ], dtype=float32)}

    Args:
        space: the space; values of Text, and of spaces that are not Gymnasium's, stay as they are.
        to_env: converts to the environment's framework.
        any_length: whether members are stacked along a first axis of any length, so that no shape is checked.
    """
    caster_of = partial(member_caster, to_env=to_env, any_length=any_length)
    if isinstance(space, spaces.Dict):
        return _by_key({key: caster_of(part) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return _by_position([*map(caster_of, space.spaces)])
    if isinstance(space, spaces.OneOf):
        return _by_choice([*map(caster_of, space.spaces)])
    if isinstance(space, spaces.Graph):
        stacks: Any = space.node_space, space.edge_space or spaces.Space(), EDGE_LINKS
        casters = [member_caster(stack, to_env, any_length=True) for stack in stacks]
        return _by_position(casters, lambda parts: spaces.GraphInstance(*parts))
    if isinstance(space, spaces.Sequence) and space.stack:
        return member_caster(space.feature_space, to_env, any_length=True)
    if isinstance(space, spaces.Sequence):
        return _by_position(repeat(caster_of(space.feature_space)))
    if not isinstance(space, (*ARRAY_SPACES, spaces.Discrete)):
        return _unchanged
    cast_dtype = _dtype_caster(np.dtype(space.dtype), to_env)
    if any_length:
        return lambda value: cast_dtype(value) if hasattr(value, "dtype") else value
    if not isinstance(space, spaces.Discrete):
        return _array_caster(space, cast_dtype, to_env)
    if to_env.framework.name == "numpy":
        return _scalar_caster(np.dtype(space.dtype), cast_dtype)
    return lambda value: cast_dtype(value) if shape_of(value) == () else value


def _unchanged(value: Any) -> Any:
    return value


def _scalar_caster(dtype: np.dtype[Any], cast_dtype: Caster) -> Caster:
    def cast(value: Any) -> Any:
        if type(value) is int:
            value = np.asarray(value)
        if shape_of(value) != ():
            return value
        member = cast_dtype(value)
        return dtype.type(member) if member.dtype == dtype else value

    return cast


def _array_caster(space: Any, cast_dtype: Caster, to_env: Converter) -> Caster:
    shape, dtype = space.shape, np.dtype(space.dtype)
    cast_new = _dtype_caster(dtype, to_env, is_new=True)

    def cast(value: Any) -> Any:
        if type(value) is np.ndarray and value.shape == shape:
            return value if value.dtype is dtype else cast_dtype(value)
        if isinstance(value, (list, tuple)):
            if (array := stacked(value, dtype)) is value:
                return value
            if to_env.copy is False and any(map(shape_of, value)):
                raise SharingError("several arrays do not share memory with one", "pass one, or copy=None")
            return cast_new(to_env(array)) if array.shape == shape else to_env(array)
        return cast_dtype(value) if shape_of(value) == shape else value

    return cast


def _by_key(casters: dict[str, Caster]) -> Caster:
    def cast(value: Any) -> Any:
        is_mapping = type(value) is dict or isinstance(value, Mapping)
        return _parts(casters.items(), value) if is_mapping and value.keys() == casters.keys() else value

    return cast


def _by_position(casters: Iterable[Caster], build: Callable[[Iterable[Any]], Any] = tuple) -> Caster:
    """Return a caster for sequences with a part for each caster, or of any length if they never end."""

    def cast(value: Any) -> Any:
        if not isinstance(value, (tuple, list)):
            return value
        if isinstance(casters, list) and len(value) != len(casters):
            return value
        return build(_parts(zip(range(len(value)), casters), value).values())

    return cast


def _by_choice(casters: list[Caster]) -> Caster:
    def cast(value: Any) -> Any:
        try:
            which, _ = value
            which = np.int64(operator.index(which))  # not int(), which would truncate
            return which, *_parts([(1, casters[which])], value).values()
        except SharingError:
            raise
        except (TypeError, ValueError, IndexError) as error:
            if is_from_handler(error):
                raise
            return value

    return cast


def _parts(casters: Iterable[tuple[Any, Caster]], value: Any) -> dict[Any, Any]:
    """Return the parts of a value by key, cast one by one; an error has its path."""
    parts, key = {}, None
    try:
        for key, cast in casters:
            parts[key] = cast(value[key])
    except FerryError as error:
        raise error.at(key_text(key))  # noqa: B904  (it is the same error)
    return parts


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Return the shape of an array; None for anything else."""
    return tuple(value.shape) if hasattr(value, "dtype") else None


def stacked(value: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """Return a list of numbers as an array; any other list, or one with an integer that is lost, as it is.

    An integer is lost if `dtype` rounds it, by default that of the array: NumPy promotes to floats.
    """
    try:
        numbers = to_numpy(value)
        array = np.asarray(numbers)
    except (ValueError, TypeError, FerryError) as error:
        if is_from_handler(error):
            raise
        return value
    if array.dtype.kind not in "biufc":
        return value
    if array.dtype.kind in "fc":
        each = map(np.asarray, np.asarray(numbers, object).flat)
        if any(item.dtype.kind in "iuO" and cast_exactly(item, dtype or array.dtype)[1] for item in each):
            return value
    return array


def _dtype_caster(dtype: np.dtype[Any], to_env: Converter, *, is_new: bool = False) -> Caster:
    """Return a caster to the space's dtype, or to the next one that the environment's framework has.

    Where memory is to be shared, a cast is refused, except of numbers and of arrays that are new.
    """
    shares = to_env.copy is False and not is_new
    framework = to_env.framework

    @cache
    def decide(old: Any, available: frozenset[str]) -> Caster:
        right = cast_for(dtype, available)
        if right is None or dtype_name(old) == right.dtype.name:
            return _unchanged
        if framework.name == "numpy" and can_hold(dtype, old):
            return lambda value: np.asarray(value).astype(dtype)
        return lambda value: _cast_or_leave(value, dtype, to_env)

    def cast(value: Any) -> Any:
        if isinstance(value, np.ma.MaskedArray):
            return value  # a cast would lose its mask
        new = decide(value.dtype, to_env.target.dtypes())(value)
        if shares and new is not value and value.shape:
            what = f"{describe(value)} is not {dtype.name}, as the action space declares, and copy=False"
            raise SharingError(what, f"pass {dtype.name}, or copy=None")
        return new

    return cast


def _cast_or_leave(value: Any, dtype: np.dtype[Any], to_env: Converter) -> Any:
    old = value if type(value) is np.ndarray else np.asarray(to_numpy(value))
    if not promotes(old.dtype, dtype):
        return value
    # A number that is out of range or would be rounded is not a member: the environment sees it as it is.
    new, lost = cast_exactly(old, dtype)
    if lost:
        return value
    return new if to_env.framework.name == "numpy" else to_env.take(new)


@cache
def numpy_converter() -> Converter:
    """Return the converter to NumPy that leaves Python's numbers as they are."""
    return ArrayConverter("numpy")


def to_numpy(value: Any) -> Any:
    """Convert a value to NumPy; numbers stay numbers."""
    return numpy_converter()(value)
