"""The values of the kit: layouts, edges of dtypes and comparisons are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from arrayferry import convert
from arrayferry.testing import LAYOUTS, at_offset, bits, edges, overwrite
from helpers.structures import CONTAINERS, zip_leaves


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_what_they_say(layout):
    array = LAYOUTS[layout](edges("float32"))
    assert {
        "plain": array.flags.c_contiguous and array.flags.owndata,
        "flipped": array.strides == (-12, -4),
        "stepped": array.strides == (24, 8),
        "transposed": array.shape == (3, 2) and array.flags.f_contiguous,
        "fortran": array.shape == (2, 3) and array.flags.f_contiguous,
        "read-only": not array.flags.writeable and array.flags.c_contiguous,
        "broadcast": array.shape == (2, 2, 3) and array.strides[0] == 0,
        "byte-swapped": not array.dtype.isnative,
        "in a record": array.strides == (15, 5),
        "0-d": array.shape == (),
        "empty": array.size == 0,
        **{f"offset by {n}": array.ctypes.data % 64 == n for n in range(64)},
    }[layout]
    assert layout in ("0-d", "empty", "broadcast", "flipped", "transposed") or (
        bits(array) == bits(edges("float32"))
    )


@pytest.mark.parametrize("offset", range(65))
def test_offsets_are_exact(offset):
    assert at_offset(edges("float64"), offset).ctypes.data % 64 == offset % 64


def test_edges_are_what_they_say():
    zero, denormal, minus_zero, minus_denormal, payload, minus_payload = edges("float32").ravel()
    assert (zero, minus_zero) == (0, 0)
    assert (np.signbit(zero), np.signbit(minus_zero)) == (False, True)
    assert denormal == np.nextafter(np.float32(0), np.float32(1)) == -minus_denormal
    assert np.isnan([payload, minus_payload]).all()
    assert edges("int8").ravel().tolist() == [0, 1, -128, -127, 127, -1]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_overwrite_reaches_every_element(layout):
    array = layout(edges("uint8"))
    before = array.copy()
    assert overwrite(array)
    assert (array != before).all()


def test_overwrite_changes_arrays_of_a_framework(name):
    array = convert(edges("float32"), name)
    before = bits(array)
    assert overwrite(array) == (bits(array) != before)


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_zip_leaves_sees_a_difference(make):
    assert list(zip_leaves(make([1, 2]), make([3, 4]))) == [(1, 3), (2, 4)]
    with pytest.raises(AssertionError, match="became"):
        list(zip_leaves([make([1, 2])], [object()]))
    with pytest.raises(AssertionError, match="became"):
        list(zip_leaves([make([1, 2])], []))
