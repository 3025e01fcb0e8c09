"""What a space consists of: its parts, and whether all its members are arrays of one form."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

__all__ = ["ARRAY_SPACES", "EDGE_LINKS", "has_fixed_shape", "subspaces"]

# Spaces whose members are arrays; those of a Discrete space are scalars.
ARRAY_SPACES = (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)

# The space of the links between a graph's nodes, as `Graph.sample` makes them.
EDGE_LINKS = spaces.MultiDiscrete([2, 2], dtype=np.int32)


def subspaces(space: spaces.Space[Any] | None) -> dict[Any, spaces.Space[Any]]:
    """Return the subspaces of a Dict by key, or of a Tuple by position; none for any other space."""
    if isinstance(space, spaces.Dict):
        return dict(space.spaces)
    return dict(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else {}


def has_fixed_shape(space: spaces.Space[Any], *, or_is_text: bool = False) -> bool:
    """Return whether all members of a space consist of numbers and arrays of the same shapes.

    >>> has_fixed_shape(spaces.Dict(a=spaces.Discrete(2))), has_fixed_shape(spaces.Text(4))
    (True, False)

    Args:
        space: the space.
        or_is_text: whether members may consist of text, too.
    """
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return all(has_fixed_shape(part, or_is_text=or_is_text) for part in subspaces(space).values())
    return isinstance(space, (*ARRAY_SPACES, spaces.Discrete)) or (or_is_text and space.dtype == str)
