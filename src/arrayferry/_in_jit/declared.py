"""What a step returns: arrays whose shapes and dtypes are declared in advance, and then checked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from arrayferry._core.dtypes import canonical_bools, cast_exactly, halved, is_known, promotes
from arrayferry._core.registry import describe
from arrayferry._core.walk import key_text
from arrayferry._frameworks.jax import jax
from arrayferry.errors import NarrowingError, UnsupportedError
from arrayferry.spaces.structure import subspaces

__all__ = ["Array", "Leaf", "Part", "alone", "joined", "part_of_array", "part_of_example", "part_of_space"]

Array = np.ndarray[Any, Any]
Writer = Callable[[Array, Any], None]

_SAFE = 3e38  # a Python float below this rounds to a finite float32


class Leaf(NamedTuple):
    """An array whose shape and dtype are declared in advance."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def writer(self) -> Writer:
        """Return a function that writes a value into such an array, exactly, except that floats may round."""
        shape, dtype, cast, ndarray = self.shape, self.dtype, self._cast, np.ndarray

        def write_array(out: Array, value: Any) -> None:
            as_declared = type(value) is ndarray and value.dtype == dtype and value.shape == shape
            out[...] = value if as_declared else cast(value)

        def write_bools(out: Array, value: Any) -> None:
            as_declared = type(value) is ndarray and value.dtype == dtype and value.shape == shape
            # In NumPy a bool may be any byte; XLA relies on 0 and 1.
            np.not_equal(value if as_declared else cast(value), False, out=out)

        def write_float(out: Array, value: Any) -> None:
            out[()] = value if type(value) is float and -_SAFE < value < _SAFE else cast(value)

        def write_bool(out: Array, value: Any) -> None:
            out[()] = value if value is True or value is False else cast(value)

        if shape:
            return write_bools if dtype.kind == "b" else write_array
        return {"f": write_float, "b": write_bool}.get(dtype.kind, write_array)

    def checked(self, value: Any, hint: str) -> Any:
        """Return an array of JAX; refuse another shape, or a kind that this dtype does not hold."""
        if isinstance(value, (bool, int, float, complex)):  # under `jax.disable_jit`
            value = jax.numpy.asarray(value)
        if getattr(value, "shape", None) != self.shape or not promotes(value.dtype, self.dtype):
            raise UnsupportedError(self._mismatch(value), hint, self.path)
        return value

    def _mismatch(self, array: Any) -> str:
        return f"{describe(array)} where {self.dtype}[{','.join(map(str, self.shape))}] was declared"

    def _cast(self, value: Any) -> Array:
        array = np.asarray(value)
        fits = array.shape == self.shape
        if fits and (half := halved(array)) is not None and half.dtype == self.dtype:
            return half
        if not fits or not is_known(array.dtype):
            hint = "compiled code needs the declared shape in every step"
            raise UnsupportedError(self._mismatch(array), hint, self.path)
        new, lost = cast_exactly(array, self.dtype)
        if lost:
            what = f"{describe(array)} -> {self.dtype} jax: {lost} does not fit"
            is_half = array.dtype.kind == self.dtype.kind and array.itemsize == 2 * new.itemsize == 8
            wider = 'jax.config.update("jax_enable_x64", True), or ' if is_half else ""
            raise NarrowingError(what, f"{wider}scale it, or declare a dtype that holds it", self.path)
        return canonical_bools(new) if new.dtype.kind == "b" else new


class Part(NamedTuple):
    """One of the values of a step: its leaves, how to find them in a value, and how to put them together."""

    leaves: list[Leaf]
    flatten: Callable[[Any], Iterable[Any]]
    build: Callable[[Iterator[Any]], Any]


def alone(value: Any) -> tuple[Any]:
    """Return the leaves of a value that is itself a leaf."""
    return (value,)


def part_of_array(path: str, shape: tuple[int, ...], dtype: Any) -> Part:
    """Declare an array."""
    return Part([Leaf(path, shape, _jax_dtype(dtype))], alone, next)


def joined(
    parts: Mapping[Any, Part], flatten: Callable[[Any], Iterable[Any]], make: Callable[[Any], Any] = dict
) -> Part:
    """Declare values by their keys; `make` makes a container of pairs of keys and values."""
    leaves = [leaf for part in parts.values() for leaf in part.leaves]
    return Part(leaves, flatten, lambda rest: make([(key, part.build(rest)) for key, part in parts.items()]))


def part_of_example(path: str, *examples: Any) -> Part:
    """Declare values with at least the parts of the first example, in dtypes that hold all examples."""
    form: Any
    keyed, form = jax.tree_util.tree_flatten_with_path(examples[0])
    paths = [path + jax.tree_util.keystr(keys) for keys, _ in keyed]
    finders = [[_finder(key) for key in keys] for keys, _ in keyed]

    def flatten(value: Any) -> Iterator[Any]:
        for where, steps in zip(paths, finders):
            found = value
            try:
                for find in steps:
                    found = find(found)
            except (LookupError, TypeError, AttributeError):
                hint = "return it in every step, or no info of this name"
                raise UnsupportedError(f"not in {value!r:.80}", hint, where) from None
            yield found

    leaves = []
    for where, *values in zip(paths, *map(flatten, examples)):
        first, *others = map(np.asarray, values)
        dtype = np.result_type(first.dtype, *[one.dtype for one in others])
        if not is_known(dtype):
            raise UnsupportedError(f"{describe(first)} has no counterpart in JAX", "leave it out", where)
        leaves.append(Leaf(where, first.shape, _jax_dtype(dtype)))
    count = len(leaves)
    return Part(leaves, flatten, lambda rest: jax.tree.unflatten(form, itertools.islice(rest, count)))


def _finder(key: Any) -> Callable[[Any], Any]:
    """Return a function that finds the part of a container at one of JAX's keys for it."""
    if hasattr(key, "name"):
        return attrgetter(key.name)
    return itemgetter(key.key if hasattr(key, "key") else key.idx)


def part_of_space(path: str, space: spaces.Space[Any]) -> Part:
    """Declare the members of a space: a dict for `Dict`, a tuple for `Tuple`, arrays for the rest."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        is_dict = isinstance(space, spaces.Dict)
        parts = {key: part_of_space(path + key_text(key), one) for key, one in subspaces(space).items()}

        def flatten(value: Any) -> Iterator[Any]:
            if is_dict:
                fits = isinstance(value, Mapping) and value.keys() == parts.keys()
            else:
                fits = isinstance(value, (tuple, list)) and len(value) == len(parts)
            if not fits:
                given = f"{len(value)} values" if isinstance(value, (tuple, list)) else describe(value)
                given = str(list(value)) if isinstance(value, Mapping) else given
                hint = "it must have the parts of its space"
                raise UnsupportedError(f"{given} where {list(parts)} was declared", hint, path)
            for key, part in parts.items():
                yield from part.flatten(value[key])

        make: Any = dict if is_dict else lambda pairs: tuple(one for _, one in pairs)
        return joined(parts, flatten, make)
    if space.shape is None or space.dtype is None or isinstance(space, spaces.Text):
        hint = "wrap the environment so that it has one, and pass that to in_jit"
        raise UnsupportedError(f"{space} has no fixed shape", hint, path)
    return part_of_array(path, space.shape, space.dtype)


def _jax_dtype(dtype: Any) -> np.dtype[Any]:
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))
