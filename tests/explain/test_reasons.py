"""The reasons: each code has its text, and the obstacles are those of the converter."""

from __future__ import annotations

import weakref

import numpy as np
from hypothesis import given

import arrayferry
from arrayferry._core import ownership
from arrayferry._core.ownership import TAKING, obstacle
from arrayferry._explain.reasons import REASONS
from helpers.structures import arrays


@given(array=arrays())
def test_obstacles_are_those_of_the_converter(array):
    is_other = obstacle(array, TAKING) not in ("", "weak-reference")  # which is asked with the count
    assert is_other != ownership.can_be_taken(array)


def test_every_obstacle_has_its_text():
    held, frozen = np.zeros(4), np.zeros(4)
    keep = weakref.ref(held)
    frozen.flags.writeable = False
    found = {
        "weak-reference": held,
        "view": np.zeros((4, 4))[:, 0],
        "read-only": frozen,
        "byte-order": np.zeros(4, ">f8"),
        "not-contiguous": np.zeros((3, 4), order="F"),
        "subclass": np.zeros(2).view(np.recarray),
        "objects": np.zeros(2, object),
    }
    assert {code: obstacle(array, TAKING) for code, array in found.items()} == {code: code for code in found}
    assert found.keys() <= REASONS.keys()
    assert keep() is held


def test_reason_and_text_of_a_leaf_agree():
    [leaf] = arrayferry.explain(np.zeros((4, 4))[:, 0], "numpy").leaves
    assert (leaf.reason, leaf.why) == ("view", REASONS["view"])
    [leaf] = arrayferry.explain(np.zeros(2).view(np.recarray), "numpy").leaves
    assert (leaf.reason, leaf.why) == ("subclass", "a recarray may carry more than its values")
