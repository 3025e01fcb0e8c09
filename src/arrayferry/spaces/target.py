"""A Gymnasium space as an agent of another framework sees it."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces

from arrayferry._core.convert import Converter
from arrayferry._core.dtypes import dtype_name, promotes
from arrayferry._core.framework import Placement
from arrayferry._core.walk import Slot, walk
from arrayferry.errors import FerryError
from arrayferry.spaces.casting import cast_to_space, visitor
from arrayferry.spaces.members import member_caster, numpy_converter, shape_of, to_numpy

__all__ = ["convert_space"]

_S = TypeVar("_S", bound="spaces.Space[Any]")


def convert_space(space: _S, converter: Converter) -> _S:
    """Return a space that is the same to `isinstance`, but whose samples are converted.

    The original does all the sampling and seeding, so both draw from the same random numbers.

    >>> space = convert_space(spaces.Discrete(4, seed=1), Converter("torch"))
    >>> space.sample(), isinstance(space, spaces.Discrete), space.sample() in space
    (tensor(1), True, True)
    """
    kind: Any = type(space)
    converted: Any = object.__new__(_converted_class(kind))
    parts = {name: _convert_part(part, converter) for name, part in vars(space).items()}
    vars(converted).update(parts, _original=space, _converter=converter)
    if space.dtype is not None and converter.framework.name != "numpy":
        converted.dtype = _TargetDtype(np.dtype(space.dtype))
    result: _S = converted
    return result


def _convert_part(part: Any, converter: Converter) -> Any:
    """Convert the spaces in an attribute of a space; everything else stays as it is."""
    if isinstance(part, spaces.Space):
        return convert_space(part, converter)
    if isinstance(part, dict):
        return {key: _convert_part(item, converter) for key, item in part.items()}
    if isinstance(part, tuple):
        return tuple(_convert_part(item, converter) for item in part)
    return part


class _TargetDtype:
    """A NumPy dtype that is also equal to another framework's dtype of the same name.

    Code that checks whether a sample has its space's dtype, such as PettingZoo's `api_test`, gets the right
    answer; and whatever takes a NumPy dtype takes this one, because NumPy reads the attribute `dtype`.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dtype, name)

    def __eq__(self, other: object) -> bool:
        is_named_alike = not isinstance(other, str) and dtype_name(other) == self.dtype.name
        return is_named_alike or self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return _TargetDtype, (self.dtype,)

    def __repr__(self) -> str:
        return repr(self.dtype)

    def __str__(self) -> str:
        return str(self.dtype)


@cache
def _converted_class(cls: Any) -> Any:
    if issubclass(cls, _ConvertedSpace):  # already converted, to a third framework
        return cls
    return type(cls.__name__, (_ConvertedSpace, cls), {"__module__": __name__, "__doc__": cls.__doc__})


class _ConvertedSpace:
    """What a space does differently when its samples are another framework's arrays."""

    _original: spaces.Space[Any]
    _converter: Converter

    def sample(self, mask: Any = None, probability: Any = None, **options: Any) -> Any:
        """Return a converted member; masks, probabilities and other options may come from any framework."""
        given = {"mask": mask, "probability": _normalized(probability), **options}
        own = {name: to_numpy(value) for name, value in given.items() if value is not None}
        return self._converter.take(self._original.sample(**own))

    def contains(self, x: Any) -> bool:
        """Return whether `sample` could have returned the value; up to rounding, where the target rounds."""
        space: Any = self._original
        if isinstance(space, (spaces.Dict, spaces.Tuple)):
            return bool(super().contains(x))  # type: ignore[misc]  # their parts are converted, too
        device = self._converter.device
        try:
            value = to_numpy(device.read(x) if isinstance(device, Placement) else x)
        except FerryError:
            return False
        cast = member_caster(space, numpy_converter())
        return bool(
            space.contains(cast(value))
            or (self._has_sample_dtype(x) and space.contains(_cast_back(space, value)))
            or _is_in_rounded(space, value)
        )

    def _has_sample_dtype(self, x: Any) -> bool:
        """Return whether a value may have the dtype that `dtypes=` gives to samples."""
        if self._original.dtype is None:  # it has parts, each with its own dtype
            return bool(self._converter.dtypes)
        new = self._converter.dtypes.get(dtype_name(self._original.dtype))
        return new is not None and dtype_name(getattr(x, "dtype", "")) == new

    def seed(self, seed: Any = None) -> Any:
        """Seed the original."""
        return self._original.seed(seed)

    @property
    def np_random(self) -> np.random.Generator:
        """The original's generator."""
        return self._original.np_random

    def __reduce__(self) -> tuple[Any, ...]:
        return convert_space, (self._original, self._converter)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return convert_space(copy.deepcopy(self._original, memo), self._converter)


def _cast_back(space: spaces.Space[Any], value: Any) -> Any:
    try:
        return cast_to_space(space, value, on_keep=None)
    except FerryError:
        return value


def _normalized(probability: Any) -> Any:
    """Return probabilities in float64 that add up to 1 again, if they did so in a narrower dtype."""
    return walk([probability], (Slot("probability"),), _normalizers)[0]


def _normalized_leaf(probability: Any, owned: bool) -> Any:
    array = to_numpy(probability)
    if not isinstance(array, np.ndarray) or promotes(array.dtype, np.dtype("int64")) or array.dtype == float:
        return array
    wide = array.astype(np.float64)
    rounding = min(0.05, 4 * array.size * 2.0 ** -{2: 7, 4: 23}.get(array.dtype.itemsize, 3))
    return wide / wide.sum() if array.size and abs(wide.sum() - 1) <= rounding else wide


_normalizers = visitor(_normalized_leaf)


def _is_in_rounded(space: Any, value: Any) -> bool:
    """Return whether an array of narrower floats lies within a Box whose bounds are rounded likewise."""
    if not isinstance(space, spaces.Box) or shape_of(value) != space.shape:
        return False
    dtype = value.dtype
    if dtype.kind != "f" or space.dtype.kind != "f" or dtype.itemsize >= space.dtype.itemsize:
        return False
    with np.errstate(over="ignore"):
        low, high = space.low.astype(dtype), space.high.astype(dtype)
    return bool(np.all(low <= value) and np.all(value <= high))
