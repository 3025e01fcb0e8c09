"""R22, R24: samples of a target space, and observations in the dtypes of their space."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from gymnasium import spaces

import arrayferry
from reliability.actions import Holder
from reliability.goals import Goal
from reliability.libraries import Library
from reliability.values import NAMES, made_in


def _space(r: random.Random, depth: int = 2) -> Any:
    made = [
        lambda: spaces.Box(-1, 1, (2,), r.choice([np.float32, np.float64])),
        lambda: spaces.Box(0, 255, (2, 2), np.uint8),
        lambda: spaces.Discrete(4, start=r.choice([0, -2])),
        lambda: spaces.MultiDiscrete([2, 3]),
        lambda: spaces.MultiBinary(3),
        lambda: spaces.Text(4),
        lambda: spaces.Dict(a=_space(r, depth - 1), b=_space(r, 0)),
        lambda: spaces.Tuple([_space(r, depth - 1), _space(r, 0)]),
        lambda: spaces.Sequence(spaces.Box(0, 1, (2,))),
        lambda: spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
        lambda: spaces.OneOf([spaces.Discrete(2), spaces.Box(0, 1, (1,))]),
    ]
    return r.choice(made if depth else made[:5])()


_CASTS = [
    None,
    None,
    {"float32": "float64"},
    {"float64": "float32"},
    {"int64": "float32"},
    {"uint8": "int32"},
]


def samples_are_members(number: int, library: Library) -> None:
    """With casts, masks and probabilities of any framework, too."""
    r = random.Random(number)
    space, target, dtypes = _space(r), r.choice(NAMES), r.choice(_CASTS)
    space.seed(number)
    seen = arrayferry.spaces.convert_space(space, arrayferry.Converter(target, dtypes=dtypes))
    how = {}
    if type(space) is spaces.Discrete:
        chances = np.random.default_rng(number).random(4).astype("f4")
        how = {"probability": made_in(r.choice(NAMES), (chances / chances.sum()).astype("f4"))}
    sample = seen.sample(**how)
    assert seen.contains(sample), f"{sample} is not in {space} seen from {target} with dtypes={dtypes}"


def casts_to_space_are_exact(number: int, library: Library) -> None:
    """Each value is the same in the dtype of the space, or an error names the leaf."""
    r = random.Random(number)
    dtype = np.dtype(r.choice(["uint8", "int32", "int64", "float32", "float64"]))
    pool = [0.0, 1.0, 255.0, 256.0, -1.0, 0.5, 2.0**24 + 1, 2.0**31, 2.0**40 + 1, 1e300, np.nan, np.inf]
    value = np.array([r.choice(pool), r.choice(pool)])
    if r.random() < 0.3 and np.isfinite(value).all() and abs(value).max() < 2**62:
        value = value.astype("int64")
    env = Holder(np.zeros(2, "f4"))
    env.observation_space = spaces.Dict(x=spaces.Box(0, 1, (2,), dtype))
    env.reset = lambda **_: ({"x": value.copy()}, {})  # type: ignore[method-assign]
    wrapped = arrayferry.wrap(env, "numpy", dtypes="space")
    try:
        got = wrapped.reset()[0]["x"]
    except OverflowError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert 'obs["x"]' in refusal, f"{refusal} does not name the leaf"
        assert not all(_fits(x, dtype) for x in value), f"{value} fits {dtype}, but was refused"
        return
    assert got.dtype == dtype, f"{got.dtype} is not {dtype}"
    for old, new in zip(value.tolist(), got.tolist()):
        same = old == new or (old != old and new != new)
        rounds = isinstance(old, float) and dtype.kind == "f" and abs(old - new) <= abs(old) * 1e-7
        assert same or rounds, f"{old} became {new}"


def _fits(x: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "f":
        exact = isinstance(x, np.floating) or int(dtype.type(x)) == int(x)
        return bool(exact and (not np.isfinite(x) or abs(float(x)) <= float(np.finfo(dtype).max)))
    limits = np.iinfo(dtype)
    return bool(np.isfinite(x) and x == int(x) and limits.min <= x <= limits.max)


GOALS = [
    Goal(
        name="R22",
        title="a target space's sample is its member",
        trial=samples_are_members,
        unit="a sample of a random space, with casts and probabilities",
        full=10_000,
        thin=60,
    ),
    Goal(
        name="R24",
        title="casts to what the space declares are exact",
        trial=casts_to_space_are_exact,
        unit="an observation of edge values",
        full=20_000,
        thin=100,
    ),
]
