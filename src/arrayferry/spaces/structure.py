"""What a space consists of, whether its members are arrays of one form, and the spaces of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

__all__ = ["ARRAY_SPACES", "EDGE_LINKS", "has_fixed_shape", "step_space", "subspaces"]

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


def step_space(env: Any, name: str) -> spaces.Space[Any]:
    """Return the space of what `env.step` takes or observes; for a vector environment, the batched one.

    Some vector environments, such as EnvPool's, declare only the spaces of a single environment.

    Args:
        env: the environment.
        name: `"action_space"` or `"observation_space"`.
    """
    space: spaces.Space[Any] = getattr(env, name)
    is_single = isinstance(env, VectorEnv) and space == getattr(env, f"single_{name}", None)
    return batch_space(space, env.num_envs) if is_single else space
