"""Hypothesis: structures and arrays of any dtype, bits and layout, between NumPy, torch and JAX.

For every route: the bits are equal afterwards; overwriting the source has no effect on the result;
overwriting the result has none on the source. 500 examples a route;
the figures over many more are those of R1, R3 and R11 in `reliability/`. What does not fit is R9 there.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrayferry import Converter, convert, frameworks
from arrayferry._core.dtypes import dtype_name
from arrayferry._core.registry import find_framework, framework_of
from arrayferry.testing import bits, overwrite
from helpers.structures import arrays, structures, zip_leaves

jax = pytest.importorskip("jax")

NAMES = [name for name in ("numpy", "torch", "jax") if name in frameworks()]
ROUTES = list(product(NAMES, repeat=2))

routes = pytest.mark.parametrize(("source", "target"), ROUTES, ids=[f"{a}-to-{b}" for a, b in ROUTES])

OTHERS = st.sampled_from([None, True, "text", b"bytes", object(), range(3)])
NUMBERS = st.integers(-(2**31), 2**31 - 1) | st.floats(width=32) | st.complex_numbers(width=64)


def common(*names: str) -> list[str]:
    """The dtypes that all of these have, under x64."""
    with jax.enable_x64(True):
        sets = [find_framework(name).target(None).dtypes() for name in names]
    return sorted(frozenset.intersection(*sets, find_framework("numpy").target(None).dtypes()))


def as_source(leaf, name):
    """The array in the source framework: for NumPy with its layout, else in the framework's memory."""
    return leaf if name == "numpy" or not isinstance(leaf, np.ndarray) else convert(leaf, name)


@routes
def test_structure_crosses(source, target):
    @given(structures(arrays(common(source, target)) | OTHERS))
    def check(value):
        with jax.enable_x64(True):
            check_crossing(value, source, target)

    check()


def check_crossing(value, source, target):
    ours = convert(value, source) if source != "numpy" else value
    wanted = [bits(leaf) if is_array(leaf) else leaf for leaf, _ in zip_leaves(ours, ours)]
    result = convert(ours, target)
    pairs = list(zip_leaves(ours, result))
    for old, _ in pairs:
        if is_array(old):
            overwrite(old)
    overwritten = [bits(old) if is_array(old) else old for old, _ in pairs]
    for (old, new), before in zip(pairs, wanted, strict=True):
        if not is_array(old):
            assert new is old
            continue
        assert framework_of(type(new)).name == target
        assert (dtype_name(new.dtype), tuple(new.shape)) == (dtype_name(old.dtype), tuple(old.shape))
        assert bits(new) == before, "the bits changed, or writing to the source changed the result"
        overwrite(new)
    for (old, _), before in zip(pairs, overwritten, strict=True):
        assert not is_array(old) or bits(old) == before, "writing to the result changed the source"


def is_array(leaf):
    return framework_of(type(leaf)) is not None


@routes
def test_number_crosses(source, target):
    converter, start = Converter(target), Converter(source)

    @given(NUMBERS)
    def check(number):
        result = converter(start(number))
        wanted = np.asarray(number, dtype_name(result.dtype))
        assert bits(result) == bits(wanted) or number != number

    check()


@given(structures(arrays() | OTHERS | NUMBERS, max_leaves=8), st.sampled_from([None, True]))
def test_input_is_never_written_to(value, copy):
    before = [(id(leaf), bits(leaf) if is_array(leaf) else None) for leaf, _ in zip_leaves(value, value)]
    convert(value, "numpy", copy=copy)
    after = [(id(leaf), bits(leaf) if is_array(leaf) else None) for leaf, _ in zip_leaves(value, value)]
    assert after == before


KINDS = {
    "flipped": lambda array: any(stride < 0 for stride in array.strides),
    "not contiguous": lambda array: not array.flags.c_contiguous,
    "fortran": lambda array: array.flags.f_contiguous and not array.flags.c_contiguous,
    "read-only": lambda array: not array.flags.writeable,
    "broadcast": lambda array: 0 in array.strides and array.size > 1,
    "byte-swapped": lambda array: not array.dtype.isnative,
    "not aligned": lambda array: not array.flags.aligned,
    "0-d": lambda array: array.ndim == 0,
    "empty": lambda array: array.size == 0,
    "NaN": lambda array: array.dtype.kind == "f" and np.isnan(array).any(),
    "minus zero": lambda array: array.dtype.kind == "f" and (np.signbit(array) & (array == 0)).any(),
    "ml_dtype": lambda array: array.dtype.kind == "V",
}


def test_the_strategy_makes_every_layout():
    seen = set()

    @settings(max_examples=1_000, derandomize=True)
    @given(arrays())
    def collect(array):
        assert type(array) is np.ndarray
        assert array.dtype.name in find_framework("numpy").target(None).dtypes()
        seen.update(name for name, is_so in KINDS.items() if is_so(array))

    collect()
    assert seen == set(KINDS)
