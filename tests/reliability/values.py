"""Values that are random, and the same for the same number; and how to look at them without this library."""

from __future__ import annotations

import enum
from itertools import permutations, product
from random import Random
from typing import Any

import jax
import numpy as np
import torch

import arrayferry
from arrayferry._core.registry import find_framework
from arrayferry.testing import LAYOUTS, edges
from helpers.structures import CONTAINERS

NAMES = ("numpy", "torch", "jax")
ROUTES = list(permutations(NAMES, 2))
EVERY_ROUTE = list(product(NAMES, repeat=2))

if not hasattr(jax, "enable_x64"):  # JAX before 0.8 has it elsewhere
    from jax.experimental import enable_x64

    jax.enable_x64 = enable_x64

with jax.enable_x64(True):
    # What all three have, so that a value has to arrive with its dtype.
    DTYPES = sorted(frozenset.intersection(*(find_framework(name).target(None).dtypes() for name in NAMES)))

_SHAPES: list[tuple[int, ...]] = [(), (1,), (5,), (2, 3), (3, 2, 2), (0, 3), (17,)]


def random_array(random: Random, dtypes: list[str] = DTYPES) -> Any:
    """An array of any dtype, shape, bits and layout."""
    dtype, shape = random.choice(dtypes), random.choice(_SHAPES)
    array = np.resize(edges(dtype), shape)
    if random.random() < 0.5:
        memory = np.frombuffer(random.randbytes(array.nbytes), np.uint8).copy()
        memory &= 1 if dtype == "bool" else 255
        array = memory.view(array.dtype).reshape(shape)
    for lay_out in random.sample(list(LAYOUTS.values()), random.randrange(4)):
        array = lay_out(array)
    return array


class Move(enum.Enum):
    """A leaf that is what it is."""

    UP = (0, 1)


class Level(enum.IntEnum):
    """A leaf that looks like a number."""

    EASY = 1


OTHERS = [
    *(None, True, "text", "", b"bytes", object(), range(3), len, {1, 2}, Move.UP, Level.EASY),
    *(np.array(["a", "b"]), np.array(["2026-01-01"], "M8[D]"), np.zeros(2, "i4,f8"), jax.random.key(0)),
    np.ma.masked_array([1, 2], [True, False]),
]


def random_structure(random: Random, depth: int = 3) -> Any:
    """Containers of every kind around arrays and other leaves."""
    if depth and random.random() < 0.7:
        inside = [random_structure(random, depth - 1) for _ in range(random.randrange(4))]
        return random.choice(list(CONTAINERS.values()))(inside)
    return random_array(random) if random.random() < 0.5 else random.choice(OTHERS)


def made_in(framework: str, array: Any) -> Any:
    """The array as somebody of that framework would hold it; in NumPy, with its layout."""
    return array if framework == "numpy" else arrayferry.convert(array, framework)


def raw(array: Any) -> bytes:
    """The bytes of an array, in C order and native byte order."""
    if isinstance(array, torch.Tensor):
        plain = array.detach().resolve_conj().resolve_neg().contiguous()
        flat = plain.as_strided((plain.numel(),), (1,))  # a dimension of one element may have any stride
        return flat.view(torch.uint8).numpy().tobytes()
    seen = np.asarray(array)
    native = seen if seen.dtype.kind == "T" else np.asarray(seen, seen.dtype.newbyteorder("="))
    return native.tobytes()


def scribble(array: Any) -> None:
    """Change every byte, where arrays of this kind can be written."""
    if isinstance(array, torch.Tensor):
        flat = torch.empty(0, dtype=torch.uint8).set_(array.untyped_storage())
        flat ^= 1
    elif isinstance(array, np.ndarray) and array.flags.writeable and array.size:
        filler = np.frombuffer(bytes(b ^ 1 for b in raw(array)), array.dtype.newbyteorder("="))
        array[...] = filler.reshape(array.shape)


def kind_of(array: Any) -> str:
    """Whose array it is, from its type alone."""
    if type(array) is np.ndarray:
        return "numpy"
    kinds = [name for name, kind in (("torch", torch.Tensor), ("jax", jax.Array)) if isinstance(array, kind)]
    return kinds[0] if kinds else type(array).__name__
