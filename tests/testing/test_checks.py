"""Every installed framework passes the kit; and the kit finds every kind of broken framework."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from arrayferry import convert, frameworks, register_framework, testing
from arrayferry._core.framework import Devices, FastPaths
from arrayferry._core.registry import registered
from arrayferry.errors import SharingError
from arrayferry.testing import (
    CHECKS,
    CONTAINERS,
    LAYOUTS,
    at_offset,
    bits,
    check_framework,
    edges,
    overwrite,
    zip_leaves,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_framework_conforms(name, check):
    check(name)


class Boxed:
    """Arrays of a framework that is made for each test: a NumPy array in an object."""

    def __init__(self, array):
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def __setitem__(self, key, value):
        self.array[key] = value.array


def share(array, device, share):
    return Boxed(array)


BOXED = replace(
    registered()["numpy"],
    name="boxed",
    modules=("numpy",),
    arrays=(f"{__name__}:Boxed",),
    to_numpy=lambda boxed, share: boxed.array,
    from_numpy=share,
    _fast=FastPaths(),
    distributions=("numpy",),
)


@pytest.fixture
def _only_numpy(monkeypatch):
    """So that a fault is found in the framework itself, and soon."""
    monkeypatch.setattr(testing.checks, "frameworks", lambda: {"numpy": frameworks()["numpy"]})


@pytest.mark.usefixtures("_only_numpy")
def test_a_framework_that_is_right_conforms():
    register_framework(BOXED)
    check_framework("boxed")


def wrong_values(array, device, share):
    return Boxed(np.zeros_like(array))


def loses_sign_of_zero(array, device, share):
    return Boxed(array + 0 if array.dtype.kind == "f" else array)


def loses_layout(array, device, share):
    return Boxed(array.ravel() if array.shape == (3, 2) else array)


def loses_dimension(array, device, share):
    return Boxed(array if array.ndim else array.ravel())


def never_shares(array, device, share):
    return Boxed(array.copy())


SHARED = np.zeros((2, 3), np.float32)


def reuses_memory(array, device, share):
    if array.shape != SHARED.shape or array.dtype != SHARED.dtype:
        return Boxed(array)
    SHARED[...] = array
    return Boxed(SHARED)


@pytest.mark.parametrize(
    ("fault", "found_by"),
    [
        ({"from_numpy": wrong_values}, "check_dtypes"),
        ({"from_numpy": loses_sign_of_zero}, "check_dtypes"),
        ({"from_numpy": loses_layout}, "check_layouts"),
        ({"from_numpy": never_shares}, "check_sharing"),
        ({"from_numpy": reuses_memory}, "check_ownership"),
        ({"from_numpy": wrong_values}, "check_pairs"),
        ({"from_numpy": loses_dimension}, "check_leaves"),
        ({"copy_within": lambda array, device, dtype, share: array}, "check_ownership"),
        ({"dtypes": lambda device: frozenset({"float32"})}, "check_scalars"),
        (
            {"default_dtypes": lambda device: {int: "int8", float: "float16", complex: "int8"}},
            "check_scalars",
        ),
        ({"devices": Devices(find=lambda spec: None)}, "check_devices"),
        ({"devices": Devices(available=lambda: ("cpu", "gpu"))}, "check_devices"),
        ({"devices": Devices(name=lambda device: "gpu", find=lambda spec: spec)}, "check_pickling"),
        ({"arrays": ()}, "check_containers"),
    ],
)
@pytest.mark.usefixtures("_only_numpy")
def test_a_fault_is_found(fault, found_by):
    register_framework(replace(BOXED, **fault))
    with pytest.raises(AssertionError, match=rf"boxed does not conform:\n(.|\n)*{found_by}: "):
        check_framework("boxed")


@pytest.mark.usefixtures("_only_numpy")
def test_an_error_that_does_not_say_where_is_found():
    def refuses(array, device, share):
        if share:
            raise SharingError("no", where="somewhere")
        return Boxed(array)

    register_framework(replace(BOXED, from_numpy=refuses))
    with pytest.raises(AssertionError, match=r"check_sharing: .* does not say where"):
        check_framework("boxed")


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
