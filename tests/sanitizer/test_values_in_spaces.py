"""Which leaf of a value is not in its space: named where the space says so too, and only there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import arrayferry
from arrayferry.sanitizer import values
from helpers import all_spaces
from helpers.envs import BOX


def misfits(space: spaces.Space[Any], value: Any) -> dict[str, str]:
    return dict(values.misfits(values.parts_of(space, value)))


def contains(space: spaces.Space[Any], value: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(space.contains(value))


def spoilt(value: Any, how: str, where: int) -> Any:
    """The value, with one of its leaves changed."""
    if isinstance(value, dict) and value:
        key = sorted(value)[where % len(value)]
        return (
            {**value, key: spoilt(value[key], how, where // 2)}
            if how != "drop"
            else dict(list(value.items())[1:])
        )
    if isinstance(value, tuple) and value and not hasattr(value, "_fields"):
        at = where % len(value)
        return tuple(spoilt(item, how, where // 2) if i == at else item for i, item in enumerate(value))
    if isinstance(value, np.ndarray):
        changes = {
            "more": lambda: np.concatenate([value.reshape(-1), value.reshape(-1)]),
            "far": lambda: np.full_like(value, np.iinfo(value.dtype).max if value.dtype.kind in "iu" else 99),
            "wider": lambda: value.astype(np.complex128),
            "float": lambda: value.astype(np.float64),
            "list": lambda: value.tolist(),
        }
        return changes.get(how, lambda: how)()
    return {"far": 99, "float": 1.5, "more": (value, value), "list": [value]}.get(how, how)


@given(
    name=st.sampled_from(all_spaces.NAMES),
    seed=st.integers(0, 10_000),
    how=st.sampled_from(["as it is", "more", "far", "wider", "float", "list", "drop", "text"]),
    where=st.integers(0, 20),
)
def test_misfits_agree_with_the_space(name: str, seed: int, how: str, where: int) -> None:
    space = all_spaces.make(name, seed)
    value = space.sample() if how == "as it is" else spoilt(space.sample(), how, where)
    try:
        expected = contains(space, value)
    except Exception:
        return  # Gymnasium's own spaces raise at some values: see the test of a space that raises
    arrays = spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete
    parts = values.parts_of(space, value)
    # Gymnasium makes an array of a list, and looks at that.
    is_list = any(isinstance(part, arrays) and isinstance(one, (list, tuple)) for _, part, one in parts)
    assert (misfits(space, value) == {}) is (expected and not is_list)


@pytest.mark.parametrize(
    ("space", "value", "path", "why"),
    [
        (
            BOX,
            np.zeros(3),
            "obs",
            "it is not in Box(-10.0, 10.0, (3,), float32): it is float64[3] numpy, 0.0 to 0.0",
        ),
        (BOX, np.float32([0, -11, 0]), "obs", "it is not in Box("),
        (BOX, "text", "obs", "it is not in Box(-10.0, 10.0, (3,), float32): it is a str"),
        (spaces.Discrete(3, start=2), 5, "obs", "it is not in Discrete(3, start=2): it is 5"),
        (spaces.Dict(a=BOX), np.zeros(3), "obs", "it is not in Dict("),
        (spaces.Dict(a=BOX), {"a": np.zeros(3)}, 'obs["a"]', "it is not in Box("),
        (spaces.Dict(a=BOX), {}, "obs", "it is not in Dict("),
        (spaces.Tuple([BOX]), (), "obs", "it is not in Tuple("),
        (spaces.Tuple([spaces.Dict(n=spaces.Discrete(2))]), ({"n": 2},), 'obs[0]["n"]', "it is not in Discr"),
        (spaces.Sequence(BOX), (np.zeros(3),), "obs", "it is not in Sequence("),
        (spaces.Text(2), "abc", "obs", "it is not in Text(1, 2, charset="),
        (spaces.OneOf([BOX, spaces.Discrete(2)]), (1, 2), "obs", "it is not in OneOf("),
    ],
)
def test_the_leaf_is_named(space: Any, value: Any, path: str, why: str) -> None:
    found = misfits(space, value)
    assert list(found) == [path]
    assert found[path].startswith(why)


def test_nan_is_not_outside_the_space_and_hides_nothing_else() -> None:
    assert misfits(BOX, np.float32([np.nan, 0, 0])) == {}
    assert list(misfits(BOX, np.float32([np.nan, 11, 0]))) == ["obs"]
    assert misfits(spaces.Dict(a=BOX), {"a": np.float32([np.nan, 0, 0])}) == {}
    unbounded = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    assert misfits(unbounded, np.array([np.nan])) == {}


def test_a_space_with_its_own_idea_of_a_member_is_asked() -> None:
    class Even(spaces.Discrete):
        def contains(self, x: Any) -> bool:
            return x % 2 == 0

    space = spaces.Dict(n=Even(10))
    assert misfits(space, {"n": 4}) == {}
    assert misfits(space, {"n": 5}) == {'obs["n"]': "it is not in Discrete(10): it is 5"}


def test_arrays_of_other_frameworks_are_members(name: str) -> None:
    for kind in (
        "box",
        "box_uint8",
        "discrete",
        "multi_binary",
        "nested",
        "sequence",
        "graph",
        "sequence_stacked",
    ):
        space = all_spaces.make(kind)
        value = arrayferry.convert(space.sample(), name)
        if name == "array_api_strict" and kind == "graph":
            value = type(value)(*value)
        assert misfits(space, value) == {}, kind
    assert list(misfits(BOX, arrayferry.convert(np.full(3, 11, np.float32), name))) == ["obs"]
