"""What a step returns: arrays whose shapes and dtypes are declared in advance, and then checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from arrayferry._core.dtypes import canonical_bools, cast_exactly, halved, is_known, promotes
from arrayferry._core.registry import describe
from arrayferry._core.walk import key_text
from arrayferry._frameworks.jax import jax
from arrayferry.errors import NarrowingError, UnsupportedError
from arrayferry.spaces.structure import subspaces

__all__ = ["Array", "Declared", "Leaf", "leaf_of", "like_example", "like_examples", "like_space"]

Array = np.ndarray[Any, Any]
Writer = Callable[[Array, Any], None]

_SAFE = 3e38  # a Python float below this rounds to a finite float32


@dataclass(frozen=True)
class Leaf:
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


class Declared:
    """Values of one form, which compiled code sees as a list of leaves.

    Args:
        path: what the value is called in messages.
        form: dicts and tuples with a `Leaf` in place of each array.
        is_whole: whether values have no parts besides these.

    Attributes:
        form: as it was given.
        leaves: the leaves of the form, in JAX's order.
        build: returns the value that has certain leaves.
    """

    def __init__(self, path: str, form: Any, *, is_whole: bool = True) -> None:
        self.form, self._path, self._is_whole = form, path, is_whole
        structure: Any
        self.leaves, structure = jax.tree.flatten(form)
        self.build = structure.unflatten

    def flatten(self, value: Any) -> Iterator[Any]:
        """Yield the leaves of a value; refuse one of another form."""
        return self._flatten(self.form, value, self._path)

    def _flatten(self, form: Any, value: Any, path: str) -> Iterator[Any]:
        if isinstance(form, Leaf):
            yield value
            return
        keys: Any
        if isinstance(form, dict):
            keys, fits = sorted(form), isinstance(value, Mapping) and value.keys() >= form.keys()
        else:
            keys, fits = range(len(form)), isinstance(value, (tuple, list)) and len(value) >= len(form)
        if not fits or (self._is_whole and len(value) > len(keys)):
            given = f"{len(value)} values" if isinstance(value, (tuple, list)) else describe(value)
            given = str(list(value)) if isinstance(value, Mapping) else given
            hint = "it must have the parts of its space" if self._is_whole else "return these in every step"
            raise UnsupportedError(f"{given} where {list(keys)} was declared", hint, path)
        for key in keys:
            yield from self._flatten(form[key], value[key], path + key_text(key))


def leaf_of(path: str, shape: tuple[int, ...], dtype: Any) -> Leaf:
    """Declare an array, in the dtype that JAX has for it."""
    return Leaf(path, shape, np.dtype(jax.dtypes.canonicalize_dtype(dtype)))


def like_space(path: str, space: spaces.Space[Any]) -> Any:
    """Return the form of a space's members: a dict for `Dict`, a tuple for `Tuple`, a leaf for the rest."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = {key: like_space(path + key_text(key), part) for key, part in subspaces(space).items()}
        return parts if isinstance(space, spaces.Dict) else tuple(parts.values())
    if space.shape is None or space.dtype is None or isinstance(space, spaces.Text):
        hint = "wrap the environment so that it has one, and pass that to in_jit"
        raise UnsupportedError(f"{space} has no fixed shape", hint, path)
    return leaf_of(path, space.shape, space.dtype)


def like_example(path: str, example: Any) -> Any:
    """Return the form of an example: dicts, tuples for other sequences, and leaves."""
    if isinstance(example, Mapping):
        return {key: like_example(path + key_text(key), part) for key, part in example.items()}
    if isinstance(example, (tuple, list)):
        return tuple(like_example(path + key_text(i), part) for i, part in enumerate(example))
    array = np.asarray(example)
    if not is_known(array.dtype):
        raise UnsupportedError(f"{describe(array)} has no counterpart in JAX", "leave it out", path)
    return leaf_of(path, array.shape, array.dtype)


def like_examples(path: str, first: Any, *others: Any) -> Any:
    """Return the form of the first example, in dtypes that hold all; the others may have more parts."""
    declared = Declared(path, like_example(path, first), is_whole=False)
    leaves = []
    for leaf, *values in zip(declared.leaves, *map(declared.flatten, others)):
        dtypes = [like_example(leaf.path, np.asarray(value)).dtype for value in values]
        leaves.append(leaf_of(leaf.path, leaf.shape, np.result_type(leaf.dtype, *dtypes)))
    return declared.build(leaves)
