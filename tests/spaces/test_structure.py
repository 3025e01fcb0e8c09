"""What spaces consist of, and whether their members have one shape."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium import spaces

from arrayferry.spaces.structure import has_fixed_shape, subspaces
from helpers.all_spaces import SINGLE

BOX = spaces.Box(-1, 1, (2,))


class Mission(spaces.Space[str]):
    """Text of a user's own class, as in MiniGrid."""

    def __init__(self) -> None:
        super().__init__(dtype=str)


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_members_of_a_space_have_one_shape_if_their_samples_always_have(name: str) -> None:
    space: Any = SINGLE[name]()
    space.seed(1)

    def shapes(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shapes(part) for key, part in value.items()}
        parts = value if isinstance(value, (tuple, list)) else None
        return [*map(shapes, parts)] if parts is not None else getattr(value, "shape", type(value))

    if has_fixed_shape(space):
        assert all(shapes(space.sample()) == shapes(space.sample()) for _ in range(20))
    else:
        assert not isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete))


@pytest.mark.parametrize(
    ("space", "is_fixed", "or_text"),
    [
        (spaces.Dict(), True, True),
        (spaces.Dict(a=BOX, b=spaces.Tuple([spaces.Discrete(3)])), True, True),
        (spaces.Dict(a=BOX, b=spaces.Text(3)), False, True),
        (spaces.Tuple([BOX, Mission()]), False, True),
        (spaces.Dict(a=spaces.Tuple([spaces.Graph(BOX, None)])), False, False),
        (spaces.Sequence(BOX, stack=True), False, False),
        (spaces.OneOf([BOX, BOX]), False, False),
        (spaces.Space(), False, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_parts_are_looked_at_too(space: Any, is_fixed: bool, or_text: bool) -> None:
    assert (has_fixed_shape(space), has_fixed_shape(space, or_is_text=True)) == (is_fixed, or_text)


def test_subspaces_have_the_keys_of_their_values() -> None:
    assert subspaces(spaces.Dict(a=BOX)) == {"a": BOX}
    assert subspaces(spaces.Tuple([BOX])) == {0: BOX}
    assert subspaces(BOX) == subspaces(None) == {}
