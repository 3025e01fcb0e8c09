"""Every installed framework passes the kit; and the kit finds every kind of broken framework."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from arrayferry import frameworks, register_framework, testing
from arrayferry._core.framework import Devices, FastPaths
from arrayferry._core.registry import registered
from arrayferry.errors import SharingError
from arrayferry.testing import (
    CHECKS,
    check_framework,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_framework_conforms(name, check):
    if (name, check.__name__) == ("array_api_strict", "check_devices") and np.__version__ < "2":
        pytest.skip("array-api-strict moves its arrays with NumPy 2 only")
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
