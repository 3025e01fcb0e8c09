"""Many small arrays as one, which the host reads in one go: reading each JAX array costs microseconds."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np

from arrayferry._core.framework import Array
from arrayferry._core.speedups import load
from arrayferry._frameworks.jax import jax, jnp
from arrayferry.envs._trees import untraced

__all__ = ["PackedArrays", "read_small"]

# Larger arrays take longer to copy twice than to read on their own.
_LARGE = 1 << 16

# About 40 microseconds, in which no other Python thread runs.
_POLLS = 400

# Where an array is: its first word, the word after its last, its shape and dtype.
Place: TypeAlias = "tuple[int, int, tuple[int, ...], np.dtype[Any]]"


class PackedArrays:
    """Trees of arrays on their way out of a compiled function, registered with JAX as a pytree.

    Small arrays of bools or of 32-bit elements travel as the words of one array, all others as they are.

    Attributes:
        arrays: the words, and the other arrays.
        layout: for each tree, its structure, the places of its small leaves, and the positions of its other
            leaves with their numbers in `arrays`.
    """

    def __init__(self, arrays: Any, layout: Any) -> None:
        self.arrays, self.layout = arrays, layout
        self._words: Any = None

    @classmethod
    def of(cls, *trees: Any, packed: int) -> PackedArrays:
        """Pack the first few trees, which have at least one small leaf; the others travel as they are.

        JAX traces this.
        """
        _register()
        words: list[Any] = []
        others: list[Any] = [None]  # a placeholder for the words
        layout, end = [], 0
        for number, tree in enumerate(trees):
            leaves, structure = jax.tree.flatten(tree)
            places: list[Place] = []
            apart: list[tuple[int, int]] = []
            for i, leaf in enumerate(leaves):
                if number < packed and _is_small(leaf):
                    places.append((end, end + leaf.size, leaf.shape, np.dtype(leaf.dtype)))
                    words.append(_as_words(leaf))
                    end += leaf.size
                else:
                    apart.append((i, len(others)))
                    others.append(leaf)
            layout.append((structure, places, apart))
        # Behind a barrier they are joined by copying memory; fused with their computation, by a slow loop.
        others[0] = jnp.concatenate(jax.lax.optimization_barrier(words))  # type: ignore[no-untyped-call]
        return cls(others, layout)

    def read(self, index: int) -> Any:
        """Return one of the trees, with private NumPy arrays for its small leaves."""
        if self._words is None:
            self._words = _awaited(untraced(self.arrays[0]))
        structure, places, apart = self.layout[index]
        leaves = from_words(self._words, places)
        for i, number in apart:
            leaves.insert(i, self.arrays[number])
        return structure.unflatten(leaves)


def _awaited(words: Any) -> Array:
    """Wait until an array is computed, and return it.

    A sleeping thread is woken so late that small steps take twice as long. So it polls for a while first.
    """
    is_ready = words.is_ready
    for _ in range(_POLLS):
        if is_ready():
            break
    return np.asarray(words)


def read_small(tree: Any) -> Any:
    """Return a tree with private NumPy arrays for its small leaves."""
    return jax.tree.map(lambda leaf: np.array(leaf) if _is_small(leaf) else leaf, tree)


@cache
def _register() -> None:
    jax.tree_util.register_pytree_node(
        PackedArrays,
        lambda packed: (packed.arrays, packed.layout),
        lambda layout, arrays: PackedArrays(arrays, layout),
    )


def _as_words(leaf: Any) -> Any:
    is_flag = leaf.dtype == bool
    words = leaf.astype(jnp.uint32) if is_flag else jax.lax.bitcast_convert_type(leaf, jnp.uint32)
    return words.reshape(-1)


def _is_small(leaf: Any) -> bool:
    kind = getattr(leaf.dtype, "kind", "")  # a typed key has none
    is_word = kind == "b" or (kind in ("i", "u", "f") and leaf.dtype.itemsize == 4)
    return is_word and leaf.size * 4 <= _LARGE


def _from_words(words: Array, places: list[Place]) -> list[Any]:
    """Return the arrays that an array of words is made up of."""
    pieces = [(words[start:stop].reshape(shape), dtype) for start, stop, shape, dtype in places]
    return [piece.astype(bool) if dtype.kind == "b" else piece.view(dtype).copy() for piece, dtype in pieces]


_words = load("arrayferry.envs._words")
from_words = _from_words if _words is None else _words.from_words
