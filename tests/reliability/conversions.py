"""R1, R3, R9, R11, R21: values, memory, dtypes and structures, over thousands of random ones."""

from __future__ import annotations

import tempfile
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from random import Random
from typing import Any

import jax
import numpy as np

from helpers.structures import zip_leaves
from reliability.goals import Goal
from reliability.libraries import Library
from reliability.values import (
    DTYPES,
    EVERY_ROUTE,
    NAMES,
    ROUTES,
    kind_of,
    made_in,
    random_array,
    random_structure,
    raw,
    scribble,
)


def crosses_bit_by_bit(number: int, library: Library) -> None:
    source, target = ROUTES[number % len(ROUTES)]
    array = random_array(Random(number))
    wanted = raw(array)
    with jax.enable_x64(True):
        result = library.convert(made_in(source, array), target)
        assert kind_of(result) == target
        assert (tuple(result.shape), _name(result.dtype)) == (array.shape, array.dtype.name)
        assert raw(result) == wanted, f"{array.dtype} from {source} to {target}: other bits"


def _name(dtype: Any) -> str:
    return str(getattr(dtype, "name", dtype)).removeprefix("torch.")


# Only what can be written can write through: the routes to frameworks with writable arrays.
_WRITABLE = [route for route in EVERY_ROUTE if route[1] != "jax"]


def writes_stay(number: int, library: Library) -> None:
    source, target = _WRITABLE[number % len(_WRITABLE)]
    random = Random(number)
    array = random_array(random)
    with tempfile.TemporaryDirectory() as folder, jax.enable_x64(True):
        if source == "numpy" and array.size and random.random() < 0.3:
            array = random.choice([_in_a_file, _in_shared_memory])(array, random, folder)
        held = made_in(source, array)
        before = raw(held)
        scribble(library.convert(held, target))
        assert raw(held) == before, f"{array.dtype} from {source} to {target}: the source was written to"


def _in_a_file(array: Any, random: Random, folder: str) -> Any:
    path = Path(folder, "array")
    path.write_bytes(raw(array))
    mode = random.choice(["r", "r+", "c"])
    return np.memmap(path, array.dtype.newbyteorder("="), mode, shape=array.shape)


def _in_shared_memory(array: Any, random: Random, folder: str) -> Any:
    memory = SharedMemory(create=True, size=array.nbytes)
    memory.unlink()  # it goes when nobody sees it any more
    native = array.dtype.newbyteorder("=")
    shared = type("Shared", (np.ndarray,), {"memory": memory})(array.shape, native, memory.buf)
    shared[...] = array
    return shared


# Where JAX has no 64 bits.
_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


def narrows_aloud(number: int, library: Library) -> None:
    """Integers stay equal, floats are as rounded by NumPy and none becomes infinite; or OverflowError."""
    random = Random(number)
    source = NAMES[number % 2]
    dtype = random.choice([*_NARROW] * 3 + DTYPES)
    array = random_array(random, [dtype])
    if random.random() < 0.5 and array.dtype.kind in "iu":  # else next to nothing would fit
        array = np.asarray(array >> (array.itemsize * 4 + random.randrange(-2, 3))).astype(array.dtype)
    narrow = _NARROW.get(dtype, dtype)
    with np.errstate(all="ignore"):
        wanted = array.astype(narrow) if narrow != dtype else array
    with jax.enable_x64(False):
        try:
            result = library.convert(made_in(source, array), "jax")
        except OverflowError:
            assert _loses(array, wanted), f"{dtype} from {source}: refused, but all values fit"
            return
        assert not _loses(array, wanted), f"{dtype} from {source}: values changed in silence"
        assert result.dtype.name == narrow, f"{dtype} from {source} became {result.dtype}"
        same = np.array_equal(np.asarray(result), wanted, equal_nan=narrow[0] in "fc")
        assert same or raw(result) == raw(wanted), f"{dtype} from {source}: other values"


def _loses(old: Any, new: Any) -> bool:
    if old.dtype == new.dtype:
        return False
    if new.dtype.kind in "iu":
        return bool((old != new).any())
    parts = [(np.real(old), np.real(new)), (np.imag(old), np.imag(new))]
    return any(bool((np.isinf(after) & np.isfinite(before)).any()) for before, after in parts)


def structure_stays(number: int, library: Library) -> None:
    """Every container comes back as itself, what is no array as the same object, arrays bit by bit."""
    source, target = EVERY_ROUTE[number % len(EVERY_ROUTE)]
    with jax.enable_x64(True):
        value = made_in(source, random_structure(Random(number)))
        for old, new in zip_leaves(value, library.convert(value, target)):
            if _crosses(old):
                assert kind_of(new) == target, f"{type(old).__name__} became {type(new).__name__}"
                assert raw(new) == raw(old), f"{old!r} became {new!r}"
            elif target == "numpy" and isinstance(old, np.ndarray):  # which holds all of its own dtypes
                assert repr(new) == repr(old), f"{old!r} became {new!r}"
                assert not np.shares_memory(new, old), f"{old!r} is shared"
            else:
                assert new is old, f"{old!r} became {new!r}"


def _crosses(leaf: Any) -> bool:
    return kind_of(leaf) in NAMES and _name(leaf.dtype) in DTYPES


_DTYPES = ["U3", "S3", "M8[D]", "m8[s]", "i4,f8", "V3", "longdouble", "clongdouble", "f8", "i1", "?", ">i4"]


def numpy_receives_its_own(number: int, library: Library) -> None:
    """What the environment writes later is not seen, whatever the dtype."""
    r = Random(number)
    array = np.zeros((2, 3), r.choice(_DTYPES))
    source = r.choice([lambda: array, lambda: array[::-1], lambda: array.T, lambda: np.ma.array(array)])()
    result = library.convert({"x": [source]}, "numpy")["x"][0]
    before = result.tobytes()
    array.view("u1").reshape(-1)[:] = 49 if array.dtype.kind != "?" else 1
    assert result.tobytes() == before, f"a later write to {array.dtype} was seen"


GOALS = [
    Goal(
        name="R1",
        title="values arrive bit by bit",
        trial=crosses_bit_by_bit,
        unit="a random array on one of 6 routes",
        full=120_000,
        thin=1_200,
        peer=6_000,
    ),
    Goal(
        name="R3",
        title="writing to a result never reaches its source",
        trial=writes_stay,
        unit="a random array, some in files or shared memory, on one of 6 routes to NumPy and torch",
        full=60_000,
        thin=1_200,
        peer=600,
    ),
    Goal(
        name="R9",
        title="nothing is narrowed in silence",
        trial=narrows_aloud,
        unit="a random array to JAX without 64-bit types, from NumPy or torch",
        full=20_000,
        thin=1_000,
        peer=2_000,
    ),
    Goal(
        name="R11",
        title="structures and other leaves stay as they are",
        trial=structure_stays,
        unit="a random structure of 16 kinds of containers, on one of 9 routes",
        full=20_000,
        thin=1_000,
        peer=2_000,
    ),
    Goal(
        name="R21",
        title="to NumPy, arrays of all dtypes are the receiver's own",
        trial=numpy_receives_its_own,
        unit="a later write to an array of one of 12 dtypes",
        full=20_000,
        thin=100,
        peer=2_000,
    ),
]
