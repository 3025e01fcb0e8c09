"""R19 to R24: the first call, containers, NumPy's own dtypes, target spaces, actions, casts to a space."""

from __future__ import annotations

import dataclasses
import random
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

import arrayferry
from arrayferry import FerryError
from reliability.goal import Goal
from reliability.subjects import Subject
from reliability.values import NAMES, kind_of, made_in

# ---- R19: an environment that holds its arrays gets its own in the very first call ----------------------


class _Holder(gym.Env[Any, Any]):
    """Holds a state of one framework, and keeps what it is given."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2,))

    def __init__(self, state: Any) -> None:
        self.state, self.given = state, []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.given.append((options or {}).get("start"))
        return self.state, {}

    def step(self, action: Any) -> Any:
        self.given.append(action)
        return self.state, 1.0, False, False, {}


def first_call_is_right(number: int, subject: Subject) -> None:
    """Options and actions arrive in the environment's framework before it has returned anything."""
    r = random.Random(number)
    source, target, given = (r.choice(NAMES) for _ in range(3))
    state: Any = made_in(source, np.zeros(2, "f4"))
    held = r.choice([lambda: state, lambda: {"now": [state]}, lambda: (1, "text", state)])()
    env = _Holder(state)
    env.state, env.extra = state, held
    for _ in range(r.randrange(3)):
        env = gym.wrappers.TimeLimit(env, 9)  # type: ignore[assignment]
    wrapped = arrayferry.wrap(env, target)
    value = made_in(given, np.ones(2, "f4"))
    if r.random() < 0.5:
        wrapped.reset(options={"start": value, "name": "x"})
    elif isinstance(env, _Holder):
        wrapped.step(value)
    else:
        wrapped.reset()
        wrapped.step(value)
    got = env.unwrapped.given[-1]
    assert kind_of(got) == source, f"a {type(got).__name__} arrived in an environment of {source}"


# ---- R20: containers come back whole, or not at all -----------------------------------------------------


@dataclasses.dataclass
class _Data:
    x: Any
    y: Any = None


@dataclasses.dataclass(frozen=True)
class _Frozen:
    x: Any


class _Dict(dict[Any, Any]):
    pass


class _Slotted(list[Any]):
    __slots__ = ("mark",)


class _User(UserDict[Any, Any]):
    pass


_Point = namedtuple("_Point", "x y")


def _build(r: random.Random, parts: list[Any]) -> Any:
    """A container of one of many kinds, some of them with attributes."""
    one, items = parts[0], {f"k{i}": part for i, part in enumerate(parts)}
    made: Any = r.choice(
        [
            lambda: dict(items),
            lambda: OrderedDict(items),
            lambda: defaultdict(int, items),
            lambda: list(parts),
            lambda: tuple(parts),
            lambda: deque(parts, maxlen=9),
            lambda: _Point(one, "text"),
            lambda: _Data(one),
            lambda: _Frozen(one),
            lambda: _Dict(items),
            lambda: _Slotted(parts),
            lambda: _User(items),
            lambda: ChainMap(dict(items), {"more": one}),
            lambda: Counter({"a": 2}),
        ]
    )()
    if isinstance(made, (_Dict, _User)) and r.random() < 0.5:
        made.note = one
    if isinstance(made, _Slotted):
        made.mark = one
    return made


def _structure(r: random.Random) -> Any:
    known: list[Any] = [np.arange(3.0), "text", None, 2, True]
    for _ in range(r.randrange(2, 8)):
        known.append(_build(r, [r.choice(known) for _ in range(r.randrange(1, 4))]))
    return known[-1]


def _outline(value: Any, seen: dict[int, int]) -> Any:
    """The types, keys, attributes and shared parts of a structure; of arrays and numbers, their values."""
    if isinstance(value, (str, type(None), bool)):
        return value
    if isinstance(value, (int, float)) or kind_of(value) in NAMES:
        return float(np.sum(np.asarray(value)))
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = len(seen)
    inner: Any = list(value.items()) if hasattr(value, "items") else None
    if inner is None and isinstance(value, (list, tuple, deque)):
        inner = list(enumerate(value))
    more = dict(getattr(value, "__dict__", {}))
    more.pop("data", None), more.pop("maps", None)
    if isinstance(value, _Slotted):
        more["mark"] = value.mark
    kept = getattr(value, "maxlen", None), getattr(value, "default_factory", None)
    parts = [(key, _outline(one, seen)) for key, one in [*(inner or ()), *more.items()]]
    return type(value).__name__, parts, str(kept)


def containers_are_whole(number: int, subject: Subject) -> None:
    """Type, order, attributes and sharing are what they were; the input is as it was."""
    r = random.Random(number)
    value, target = _structure(r), r.choice(NAMES)
    before = _outline(value, {})
    try:
        result = subject.convert(value, target)
    except FerryError as error:
        raise AssertionError(f"refused: {error}") from error
    assert _outline(value, {}) == before, "the input was written to"
    assert _outline(result, {}) == before, f"{_outline(result, {})} came of {before}"


# ---- R21: to NumPy, arrays of all dtypes are the receiver's own -----------------------------------------

_DTYPES = ["U3", "S3", "M8[D]", "m8[s]", "i4,f8", "V3", "longdouble", "clongdouble", "f8", "i1", "?", ">i4"]


def numpy_receives_its_own(number: int, subject: Subject) -> None:
    """What the environment writes later is not seen, whatever the dtype."""
    r = random.Random(number)
    array = np.zeros((2, 3), r.choice(_DTYPES))
    source = r.choice([lambda: array, lambda: array[::-1], lambda: array.T, lambda: np.ma.array(array)])()
    result = subject.convert({"x": [source]}, "numpy")["x"][0]
    before = result.tobytes()
    array.view("u1").reshape(-1)[:] = 49 if array.dtype.kind != "?" else 1
    assert result.tobytes() == before, f"a later write to {array.dtype} was seen"


# ---- R22: a target space's sample is its member ---------------------------------------------------------


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


def samples_are_members(number: int, subject: Subject) -> None:
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


# ---- R23: no action is rounded --------------------------------------------------------------------------


def no_action_is_rounded(number: int, subject: Subject) -> None:
    """What arrives equals what was sent; an integer that the space's dtype would round goes as it is."""
    r = random.Random(number)
    dtype = r.choice([np.float32, np.float64, np.int8, np.int64])
    bits = r.randrange(1, 62)
    kind = r.choice(["int64", "int32"]) if bits < 31 else "int64"
    action = np.array([r.randrange(2**bits), -r.randrange(2**bits)], kind)
    env = _Holder(np.zeros(2, "f4"))
    low, high = (-np.inf, np.inf) if np.dtype(dtype).kind == "f" else (-128, 127)
    env.action_space = spaces.Box(low, high, (2,), dtype)
    wrapped = subject.wrap(env, "numpy", "torch")
    wrapped.step(torch.from_numpy(action.copy()))
    got = np.asarray(env.given[-1])
    assert [int(x) for x in got] == [int(x) for x in action], f"{action} arrived as {got}"


# ---- R24: observations in the dtypes of their space -----------------------------------------------------


def casts_to_space_are_exact(number: int, subject: Subject) -> None:
    """Each value is the same in the dtype of the space, or an error names the leaf."""
    r = random.Random(number)
    dtype = np.dtype(r.choice(["uint8", "int32", "int64", "float32", "float64"]))
    pool = [0.0, 1.0, 255.0, 256.0, -1.0, 0.5, 2.0**24 + 1, 2.0**31, 2.0**40 + 1, 1e300, np.nan, np.inf]
    value = np.array([r.choice(pool), r.choice(pool)])
    if r.random() < 0.3 and np.isfinite(value).all() and abs(value).max() < 2**62:
        value = value.astype("int64")
    env = _Holder(np.zeros(2, "f4"))
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
        name="R19",
        title="the first call is as right as the second",
        trial=first_call_is_right,
        unit="a first reset or step of an environment that holds its arrays",
        full=20_000,
        thin=60,
    ),
    Goal(
        name="R20",
        title="containers come back whole",
        trial=containers_are_whole,
        unit="a random structure of 14 kinds of containers",
        full=40_000,
        thin=150,
        peer=2_000,
    ),
    Goal(
        name="R21",
        title="to NumPy, arrays of all dtypes are the receiver's own",
        trial=numpy_receives_its_own,
        unit="a later write to an array of one of 12 dtypes",
        full=20_000,
        thin=100,
        peer=2_000,
    ),
    Goal(
        name="R22",
        title="a target space's sample is its member",
        trial=samples_are_members,
        unit="a sample of a random space, with casts and probabilities",
        full=10_000,
        thin=60,
    ),
    Goal(
        name="R23",
        title="no action is rounded",
        trial=no_action_is_rounded,
        unit="an integer action into a Box",
        full=20_000,
        thin=60,
        peer=2_000,
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
