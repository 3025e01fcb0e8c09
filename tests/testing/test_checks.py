"""Every installed framework passes the kit; and the kit finds every kind of broken framework."""

from __future__ import annotations

import numpy as np
import pytest

from arrayferry import Source, frameworks, register_framework, testing
from arrayferry.errors import SharingError, UnsupportedError
from arrayferry.testing import (
    CHECKS,
    check_framework,
)
from helpers.frameworks import TARGET, FakeFramework


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


BOXES = {
    "modules": ("numpy",),
    "arrays": (f"{__name__}:Boxed",),
    "source": Source(read=lambda boxed: boxed.array, view=lambda boxed: boxed.array),
}


def boxed(target=None, **attributes):
    """Return a framework that is right, except for the parts that are said."""
    made = TARGET._replace(**{"take": Boxed, "share": Boxed, **(target or {})})
    return FakeFramework("boxed", **{**BOXES, "target": made, **attributes})


@pytest.fixture
def _only_numpy(monkeypatch):
    """So that a fault is found in the framework itself, and soon."""
    monkeypatch.setattr(testing.checks, "frameworks", lambda: {"numpy": frameworks()["numpy"]})


@pytest.mark.usefixtures("_only_numpy")
def test_a_framework_that_is_right_conforms():
    register_framework(boxed())
    check_framework("boxed")


class Number:
    """A number of a framework without 0-d arrays, as Warp's are: its type stands for the dtype."""

    def __init__(self, value):
        self.value = value


NUMBERS = {name: type(name, (Number,), {}) for name in ("float32", "int32")}


def or_number(array):
    return Boxed(array) if array.ndim else NUMBERS[array.dtype.name](array.item())


def only_with_dimensions(array):
    if not array.ndim:
        raise UnsupportedError("there are no 0-d arrays", "reshape it")
    return Boxed(array)


def read_number(array):
    return array.array if isinstance(array, Boxed) else np.array(array.value, type(array).__name__)


def few(*names):
    return {"dtypes": lambda: frozenset(names)}


@pytest.mark.parametrize(
    ("target", "attributes"),
    [
        (few("float32", "int32"), {}),
        (few("float64"), {}),
        (few("int64", "float64", "complex128"), {}),
        (few("uint8", "int4"), {}),
        (few("bool"), {}),
        (few("bfloat16"), {}),
        ({"dtypes": lambda: TARGET.dtypes() - {"bool"}}, {}),
        ({"dtypes": lambda: TARGET.dtypes() - {"int32"}}, {}),
        ({"share": None}, {}),
        ({"take": only_with_dimensions}, {}),
        (
            {"take": or_number, "share": None, **few("float32", "int32")},
            {"arrays": (f"{__name__}:Boxed", f"{__name__}:Number"), "source": Source(read=read_number)},
        ),
    ],
    ids=[
        "float32 and int32",
        "float64",
        "wide ones",
        "uint8",
        "bool",
        "bfloat16",
        "no bool",
        "no int32",
        "never shares",
        "refuses 0-d",
        "numbers for 0-d",
    ],
)
@pytest.mark.usefixtures("_only_numpy")
def test_a_sound_framework_that_has_little_conforms(target, attributes):
    if "bfloat16" in target.get("dtypes", frozenset)():
        pytest.importorskip("ml_dtypes")
    register_framework(boxed(target, **attributes))
    check_framework("boxed")


def wrong_values(array):
    return Boxed(np.zeros_like(array))


def loses_sign_of_zero(array):
    return Boxed(array + 0 if array.dtype.kind == "f" else array)


def loses_layout(array):
    return Boxed(array.ravel() if array.shape == (3, 2) else array)


def loses_dimension(array):
    return Boxed(array if array.ndim else array.ravel())


def never_shares(array):
    return Boxed(array.copy())


SHARED = np.zeros((2, 3), np.float32)


def reuses_memory(array):
    if array.shape != SHARED.shape or array.dtype != SHARED.dtype:
        return Boxed(array)
    SHARED[...] = array
    return Boxed(SHARED)


@pytest.mark.parametrize(
    ("target", "attributes", "found_by"),
    [
        ({"take": wrong_values}, {}, "check_dtypes"),
        ({"take": loses_sign_of_zero}, {}, "check_dtypes"),
        ({"take": loses_layout}, {}, "check_layouts"),
        ({"share": never_shares}, {}, "check_sharing"),
        ({"take": reuses_memory}, {}, "check_ownership"),
        ({"take": wrong_values}, {}, "check_pairs"),
        ({"take": loses_dimension}, {}, "check_scalars"),
        ({"within": lambda array, dtype: array}, {}, "check_ownership"),
        ({"defaults": lambda: {int: "int8", float: "float16", complex: "int8"}}, {}, "check_scalars"),
        ({}, {"find_device": lambda spec: None}, "check_devices"),
        ({}, {"device_names": lambda: ("cpu", "gpu")}, "check_devices"),
        ({}, {"device_name": lambda device: "gpu", "find_device": lambda spec: spec}, "check_devices"),
    ],
)
@pytest.mark.usefixtures("_only_numpy")
def test_a_fault_is_found(target, attributes, found_by):
    register_framework(boxed(target, **attributes))
    with pytest.raises(AssertionError, match=rf"boxed does not conform:\n(.|\n)*{found_by}: "):
        check_framework("boxed")


class Bare:
    """An array type that lacks something."""

    def __init__(self, array, **has):
        self.array = array
        vars(self).update(has)


def bare(**has):
    return {"take": lambda array: Bare(array, **{name: get(array) for name, get in has.items()})}


def shape(array):
    return array.shape


@pytest.mark.parametrize(
    ("target", "attributes", "message"),
    [
        (bare(shape=shape), {}, "a Bare has to have a dtype"),
        (bare(dtype=lambda array: array.dtype), {}, "a Bare has to have a shape"),
        (bare(shape=shape, dtype=lambda array: "f4"), {}, "the dtype of a float32 Bare is called f4"),
        (bare(shape=np.size, dtype=lambda array: array.dtype), {}, ""),
        ({}, {"arrays": ()}, "Framework.arrays has to name testing.test_checks:Boxed"),
        ({"dtypes": frozenset({"float32"})}, {}, "Target.dtypes has to be a function"),
        (few(), {}, "Target.dtypes has no dtype that NumPy has"),
        (few("float32", "f8"), {}, "Target.dtypes has to have names, not 'f8'"),
        ({"as_is": frozenset({"int8"}), **few("float32")}, {}, "has to be a part of Target.dtypes"),
        ({}, {"source": Source(read=lambda boxed: boxed.array.tolist())}, "Source.read returns a list"),
    ],
)
@pytest.mark.usefixtures("_only_numpy")
def test_what_an_array_type_lacks_is_said_once(target, attributes, message):
    sources = {"arrays": (f"{__name__}:Bare", f"{__name__}:Boxed")}
    register_framework(boxed(target, **{**sources, **attributes}))
    with pytest.raises(
        AssertionError, match=rf"boxed does not conform:\ncheck_arrays: .*{message}"
    ) as caught:
        check_framework("boxed")
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.usefixtures("_only_numpy")
def test_an_error_that_does_not_say_where_is_found():
    def refuses(array):
        raise SharingError("no", where="somewhere")

    register_framework(boxed({"share": refuses}))
    with pytest.raises(AssertionError, match=r"check_sharing: .* does not say where"):
        check_framework("boxed")
