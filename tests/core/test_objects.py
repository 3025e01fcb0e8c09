"""What is received is the receiver's, all of it: also what structured and masked arrays hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from arrayferry import convert
from arrayferry.errors import UnsupportedError

DTYPE = [("number", float), ("thing", object), ("inner", [("pair", object, (2,)), ("count", int)])]


def structured(array):
    made = np.zeros(2, DTYPE)
    made["thing"][0], made["inner"]["pair"][1, 0] = array, [array]
    return made


@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize(
    "view", [np.asarray, lambda made: made.view(np.recarray), lambda made: made[::-1][::-1]]
)
def test_objects_in_structured_arrays_are_private(view, copy):
    array = np.arange(3.0)
    source = view(structured(array))
    result = convert({"x": source}, "numpy", copy=copy)["x"]
    assert type(result) is type(source)
    assert result.dtype == source.dtype
    for new in result["thing"][0], result["inner"]["pair"][1, 0][0]:
        new[:] = -1
    assert array.tolist() == [0, 1, 2]


def test_objects_in_records_are_private():
    array = np.arange(3.0)
    result = convert([structured(array)[0]], "numpy", copy=True)[0]
    assert type(result) is np.void
    result["thing"][:] = -1
    assert array.tolist() == [0, 1, 2]


def test_structured_array_that_cannot_be_copied_is_refused():
    source = structured(number for number in range(3))
    with pytest.raises(UnsupportedError, match="cannot be rebuilt") as caught:
        convert({"x": source}, "numpy")
    assert caught.value.where == 'value["x"]'
    assert convert({"x": source}, "numpy", copy=False)["x"] is source


def test_objects_and_fill_value_of_masked_arrays_are_private():
    array = np.arange(3.0)
    source = np.ma.masked_array(np.array([None, None], object), mask=[False, True])
    source.data[0] = array
    result = convert([source], "numpy", copy=True)[0]
    result.data[0][:] = -1
    assert array.tolist() == [0, 1, 2]
    assert result.mask.tolist() == [False, True]
    source = np.ma.masked_array([1.0, 2.0], mask=[False, True], fill_value=9.0)
    result = convert([source], "numpy")[0]
    result.fill_value, result.mask[0] = 5.0, True
    assert source.fill_value == 9.0
    assert source.mask.tolist() == [False, True]


class Noted(np.ndarray):
    def __array_finalize__(self, source):
        self.notes = getattr(source, "notes", None)


def test_attributes_of_a_subclass_are_private():
    source = np.zeros(2, "datetime64[s]").view(Noted)
    source.notes = {"x": np.arange(3.0)}
    result = convert([source], "numpy")[0]
    assert type(result) is Noted
    result.notes["x"][:] = -1
    assert source.notes["x"].tolist() == [0, 1, 2]


@dataclass
class Held:
    state: Any
    tie: Any


def with_empty_cell():
    if with_empty_cell is None:
        later = 1
    return lambda: later


TIES = {
    "keyword of a partial": lambda state: partial(print, end=state),
    "partial of a closure": lambda state: partial(lambda: state),
    "keyword-only default": lambda state: lambda *, x=state: x,
    "default": lambda state: lambda x=state: x,
    "keys": lambda state: state.keys(),
    "values": lambda state: state.values(),
    "items": lambda state: state.items(),
    "iterator": iter,
    "iterator of items": lambda state: iter(state.items()),
    "generator": lambda state: (key for key in state),
    "zip": lambda state: zip(state, [1]),
}


@pytest.mark.parametrize("case", TIES)
def test_what_is_tied_to_the_state_of_its_container_is_refused(case):
    state = {"x": np.zeros(2)}
    with pytest.raises(UnsupportedError, match=r"register_container\(Held") as caught:
        convert({"a": [Held(state, TIES[case](state))]}, "numpy")
    assert caught.value.where == 'value["a"][0]'


def test_a_function_with_an_empty_cell_stays():
    function = with_empty_cell()
    assert convert(Held(1, function), "numpy").tie is function
