"""The leaves of a value: what `explain` says is what `convert` does."""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import arrayferry
from arrayferry._explain.leaves import flat
from arrayferry.testing import LAYOUTS


def verdicts(explanation):
    return {leaf.path: leaf.verdict for leaf in explanation.leaves}


def only(explanation):
    [leaf] = explanation.leaves
    return leaf


def test_what_nobody_holds_is_taken_over(name):
    leaf = only(arrayferry.explain(np.zeros(4000, np.float32), name))
    assert leaf.memory in ("taken over", "copied")
    target = arrayferry.Converter(name).target
    if target.share is not None and not target.alignment:  # else it is luck
        # Until Python 3.11, whoever calls a function holds its arguments while it runs.
        held = sys.version_info < (3, 11)
        assert leaf.verdict == ("copied: you still hold it" if held else "taken over: nobody else holds it")


def test_what_somebody_holds_is_copied(name):
    held = np.zeros(4, np.float32)
    assert only(arrayferry.explain(held, name)).verdict == "copied: you still hold it"
    inside = {"x": np.zeros(4, np.float32)}
    assert only(arrayferry.explain(inside, name)).verdict == "copied: others may hold the container it is in"


def test_verdict_is_what_convert_does(pair):
    """Copied or not, seen from the memory of what `convert` gives."""
    source, target = pair
    array = arrayferry.convert(np.arange(6, dtype=np.float32), source)
    leaf = only(arrayferry.explain(array, target))
    assert leaf.memory in ("copied", "taken over")
    assert (leaf.route[0], leaf.route[-1]) == pair
    assert (leaf.before, leaf.after, leaf.shape) == ("float32", "float32", (6,))
    assert leaf.memory == "copied" or source == target  # `array` is still held
    assert np.array_equal(np.asarray(arrayferry.convert(array, "numpy")), np.arange(6))


def test_options_are_reasons():
    held = np.zeros(4)
    assert only(arrayferry.explain(held, "numpy", copy=True)).verdict == "copied: copy=True"
    assert only(arrayferry.explain(held, "numpy", copy=False)).verdict == "shared: copy=False"
    cast = only(arrayferry.explain(held, "numpy", dtypes={"float64": "float32"}))
    assert (cast.verdict, cast.before, cast.after) == (
        "cast to float32: dtypes= asks for it",
        "float64",
        "float32",
    )


@pytest.mark.skipif("jax" not in arrayferry.frameworks(), reason="jax is not installed")
def test_dtypes_that_jax_does_not_have():
    found = arrayferry.explain({"n": np.array([1, 2]), "big": np.array([2**40])}, "jax")
    assert verdicts(found)['value["n"]'] == "cast to int32: jax has no int64 here"
    assert not found.ok
    assert "does not fit" in verdicts(found)['value["big"]']
    assert any("jax_enable_x64" in text for text in found.advice)


def test_paths_are_those_of_errors():
    value = {"a": [1, {}, ("x", None)], "b": {"c": np.array([np.zeros(2), None], object)}, 3: 2.5, "e": {}}
    found = arrayferry.explain(value, "numpy")
    assert [leaf.path for leaf in found.leaves] == [
        'value["a"][0]',
        'value["a"][2][0]',
        'value["a"][2][1]',
        'value["b"]["c"][0]',
        'value["b"]["c"][1]',
        "value[3]",
    ]
    assert list(flat(value["a"], "x")) == ["x[0]", "x[2][0]", "x[2][1]"]


def test_what_is_left_alone_says_so():
    held = {"s": "text", "t": np.array(["text"]), "b": True}
    found = verdicts(arrayferry.explain(held, "numpy"))
    assert found == {
        'value["s"]': "left alone: a str is not an array",
        'value["t"]': "copied: others may hold the container it is in",
        'value["b"]': "left alone: a bool is not an array",
    }


def test_explain_changes_nothing():
    held = {"x": np.arange(3), "y": [np.ones(2)]}
    explanation = arrayferry.explain(held, "numpy")
    assert np.array_equal(held["x"], [0, 1, 2])
    assert explanation.totals == {"copied": 40}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_explained(layout, name):
    leaf = only(arrayferry.explain(LAYOUTS[layout](np.arange(12, dtype=np.float32).reshape(3, 4)), name))
    assert leaf.memory in ("copied", "taken over")
    assert leaf.why


@pytest.mark.skipif("jax" not in arrayferry.frameworks(), reason="jax is not installed")
def test_a_deleted_array_is_refused_and_the_others_are_explained(name):
    import jax.numpy as jnp

    deleted = jnp.zeros(3)
    deleted.delete()
    found = arrayferry.explain([deleted, np.zeros(3, np.float32)], name)
    assert found.leaves[0].memory == "refused"
    assert found.leaves[1].memory in ("taken over", "copied")
    assert "deleted" in found.leaves[0].why
    assert found.leaves[0].hint


@dataclasses.dataclass
class Pose:
    """A container whose holders are not counted."""

    place: Any


UNCOUNTED = "copied: others may hold the container it is in"
CONTAINERS = {
    "dict": (lambda array: {"a": array}, "taken over: nobody else holds it"),
    "dataclass": (Pose, UNCOUNTED),
    "dataclass in a dict": (lambda array: {"a": Pose(array)}, UNCOUNTED),
    "dict in a dataclass": (lambda array: Pose({"a": array}), UNCOUNTED),
    "OrderedDict": (lambda array: OrderedDict(a=array), UNCOUNTED),
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="what is handed to `convert` is copied there")
@pytest.mark.parametrize(("contain", "verdict"), CONTAINERS.values(), ids=CONTAINERS)
def test_the_true_reason_why_it_is_not_taken_out_of_its_container(contain, verdict):
    (leaf,) = arrayferry.explain(contain(np.zeros(3)), "numpy").leaves
    assert leaf.verdict == verdict


def test_an_explanation_is_true_if_nothing_is_refused():
    assert arrayferry.explain({"a": np.zeros(3)}, "numpy")
    assert not arrayferry.explain(np.zeros(3, ">f4"), "numpy", copy=False, dtypes={"float32": "float64"})
