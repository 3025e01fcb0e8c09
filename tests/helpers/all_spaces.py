"""Every Gymnasium space, plain and nested, and the batched form of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)
from gymnasium.vector.utils import batch_space
from packaging.version import Version

if TYPE_CHECKING:
    from gymnasium import spaces

# By name, so that a test says which. Built anew for each test: a space has random state.
SINGLE = {
    "box": lambda: Box(-1, 1, (3,), np.float32),
    "box_float64": lambda: Box(-1, 1, (2, 2), np.float64),
    "box_float16": lambda: Box(-1, 1, (2,), np.float16),
    "box_uint8": lambda: Box(0, 255, (2, 3), np.uint8),
    "box_int32": lambda: Box(-9, 9, (2,), np.int32),
    "box_bool": lambda: Box(0, 1, (3,), np.bool_),
    "box_0d": lambda: Box(-1, 1, (), np.float32),
    "box_unbounded": lambda: Box(-np.inf, np.inf, (2,), np.float32),
    "discrete": lambda: Discrete(5),
    "discrete_start": lambda: Discrete(5, start=-2),
    "discrete_int32": lambda: Discrete(5, dtype=np.int32),
    "discrete_uint8": lambda: Discrete(5, start=3, dtype=np.uint8),
    "multi_discrete": lambda: MultiDiscrete([3, 4]),
    "multi_discrete_start": lambda: MultiDiscrete([3, 4], start=[10, 20]),
    "multi_discrete_2d": lambda: MultiDiscrete([[3, 4], [5, 6]], dtype=np.int16),
    "multi_binary": lambda: MultiBinary(4),
    "multi_binary_2d": lambda: MultiBinary([2, 3]),
    "text": lambda: Text(min_length=2, max_length=6),
    "tuple": lambda: Tuple((Discrete(3), Box(-1, 1, (2,), np.float32))),
    "dict": lambda: Dict(go=Discrete(4), how=Box(-1, 1, (2,), np.float64), why=Text(4)),
    "nested": lambda: Dict(
        a=Tuple((Dict(b=MultiBinary(2), c=Discrete(3)), Box(0, 9, (1,), np.int64))), d=Discrete(2)
    ),
    "sequence": lambda: Sequence(Box(-1, 1, (2,), np.float32)),
    "sequence_discrete": lambda: Sequence(Discrete(4, dtype=np.int32)),
    "sequence_stacked": lambda: Sequence(Box(-1, 1, (2,), np.float32), stack=True),
    "sequence_of_dicts": lambda: Sequence(Dict(a=Box(-1, 1, (2,), np.float32), b=Discrete(5)), stack=True),
    "graph": lambda: Graph(Box(-1, 1, (2,), np.float32), Discrete(3)),
    "graph_discrete": lambda: Graph(Discrete(5), Box(-1, 1, (2,), np.float64)),
    "graph_no_edges": lambda: Graph(MultiBinary(3), None),
    "graph_of_dicts": lambda: Graph(Dict(a=Discrete(3), b=Box(-1, 1, (2,), np.float32)), None),
    "one_of": lambda: OneOf([Discrete(3), Box(-1, 1, (2,), np.float32)]),
    "one_of_tuple": lambda: OneOf([MultiBinary(2), Tuple((Discrete(2), Discrete(3)))]),
}

if Version(gymnasium.__version__) < Version("1.4"):  # `Discrete` has no dtype, and graphs have no such nodes
    for _name in (
        "discrete_int32",
        "discrete_uint8",
        "sequence_discrete",
        "graph_no_edges",
        "graph_of_dicts",
    ):
        del SINGLE[_name]

NAMES = [*SINGLE, *(f"{name}*2" for name in SINGLE)]


def make(name: str, seed: int = 1) -> spaces.Space[Any]:
    """The space of that name, seeded; with `*2`, batched."""
    plain, star, _ = name.partition("*")
    space: Any = SINGLE[plain]()
    space = batch_space(space, 2) if star else space
    space.seed(seed)
    return space
