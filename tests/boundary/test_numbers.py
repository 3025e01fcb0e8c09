"""Rewards and flags: what is a number, what is not, and what `scalars="target"` makes of them."""

from __future__ import annotations

import datetime
from collections import OrderedDict, UserDict, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import VectorEnv

import arrayferry
from arrayferry.errors import CircularError, NarrowingError, SharingError, UnsupportedError
from helpers.compare import array_type_of, seen
from helpers.envs import Scripted

OBSERVATION = np.arange(3, dtype=np.float32)

# Those that share memory with NumPy, as far as they are installed.
NUMPY_AND_TORCH = [name for name in ("numpy", "torch") if name in arrayferry.frameworks()]


class OnlyFloat:
    def __float__(self) -> float:
        return 0.0


class OnlyIndex:
    def __index__(self) -> int:
        return 1


class OnlyBool:
    def __bool__(self) -> bool:
        return True


def stepped(target: str, reward: Any = 1.0, terminated: Any = False, **options: Any) -> Any:
    env = arrayferry.wrap(Scripted((OBSERVATION, reward, terminated, False, {})), target, **options)
    env.reset()
    return env.step(arrayferry.convert(np.array(0), target))


def objects(*values: Any, shape: Any = None) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array if shape is None else array.reshape(shape)


NOT_NUMBERS = {
    "masked": np.ma.masked,
    "masked 0-d": np.ma.array(1.5, mask=True),
    "masked 1-d": np.ma.array([1.5], mask=[True]),
    "masked in part": np.ma.array([1.5, 2.5], mask=[True, False]),
    "text": "1e3",
    "empty text": "",
    "bytes": b"2.5",
    "bytearray": bytearray(b"2.5"),
    "memoryview": memoryview(b"2.5"),
    "np.str_": np.str_("1e3"),
    "np.bytes_": np.bytes_(b"1"),
    "0-d text": np.array("1e3"),
    "1-d text": np.array(["1"]),
    "texts": np.array(["1", "0"]),
    "datetime64": np.datetime64(1, "ns"),
    "timedelta64": np.timedelta64(1, "ns"),
    "0-d timedelta64": np.array(1, "timedelta64[ns]"),
    "record": np.zeros((), "f8,f8")[()],
    "records": np.zeros(2, "f8,f8"),
    "complex": 1 + 0j,
    "np.complex64": np.complex64(1),
    "complexes": np.ones(2, np.complex64),
    "text in an object array": objects("1e3", shape=()),
    "np.str_ in an object array": objects(np.str_("1e3")),
    "texts in an object array": objects("1", "0"),
    "None": None,
    "an object": object(),
    "a set": {1.0},
    "a range": range(1),
    "in a list": [1.0, "1e3"],
    "in a dict": {"a": 1.0, "b": b"1"},
    "deep": {"a": [{"b": np.ma.masked}]},
    "timedelta": [datetime.timedelta(0)],
}

REWARDS = {
    "int": (2, 2.0),
    "bool": (True, 1.0),
    "np.bool_": (np.True_, 1.0),
    "np.longdouble": (np.longdouble(1.5), 1.5),
    "Decimal": (Decimal("2.5"), 2.5),
    "Fraction": (Fraction(5, 2), 2.5),
    "only __float__": (OnlyFloat(), 0.0),
    "only __index__": (OnlyIndex(), 1.0),
    "0-d": (np.array(1.5), 1.5),
    "1-d": (np.array([1.5], np.float16), 1.5),
    "0-d object": (objects(1.5, shape=()), 1.5),
    "0-d object with a Decimal": (objects(Decimal("1.5"), shape=()), 1.5),
    "a mask that hides nothing": (np.ma.array([1.5], mask=[False]), 1.5),
    "infinity": (np.float32("inf"), np.inf),
    "Decimal infinity": (Decimal("-Infinity"), -np.inf),
    "longdouble infinity": (np.longdouble("inf"), np.inf),
    "a large int": (2**60, 2.0**60),
}


@pytest.mark.parametrize("scalars", ["python", "target"])
@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_what_is_no_number_is_no_reward(name: str, scalars: Any, target: str) -> None:
    with pytest.raises(UnsupportedError, match="not a real number") as caught:
        stepped(target, NOT_NUMBERS[name], scalars=scalars)
    assert caught.value.where.startswith("reward")


@pytest.mark.parametrize("scalars", ["python", "target"])
@pytest.mark.parametrize("name", [name for name in NOT_NUMBERS if name != "timedelta"])
def test_what_is_no_number_is_no_flag(name: str, scalars: Any, target: str) -> None:
    with pytest.raises(UnsupportedError, match=r"terminated.*(not a bool|not a single bool)"):
        stepped(target, terminated=NOT_NUMBERS[name], scalars=scalars)


@pytest.mark.parametrize(
    ("reward", "where"),
    [
        ({"a": 1.0, "b": b"1"}, 'reward["b"]'),
        ([1.0, ("x",)], "reward[1][0]"),
        (objects(1.0, "1"), "reward[1]"),
    ],
    ids=["dict", "list", "object array"],
)
def test_the_path_of_what_is_no_number(reward: Any, where: str) -> None:
    for options in ({}, {"scalars": "target"}, {"reward_dtype": "float32"}):
        with pytest.raises(UnsupportedError) as caught:
            stepped("numpy", reward, **options)
        assert caught.value.where == where


@pytest.mark.parametrize("name", REWARDS)
def test_what_is_a_number_is_a_reward(name: str, target: str) -> None:
    reward, want = REWARDS[name]
    got = stepped(target, reward)[1]
    assert type(got) is float
    assert got == want
    if "object" not in name:
        assert stepped(target, reward, reward_dtype="float32")[1] == want


@pytest.mark.parametrize(
    "reward", [2**53 + 1, 10**400, -(10**400), np.int64(2**53 + 1), np.uint64(2**64 - 1)]
)
def test_an_integer_that_a_float_would_round_is_no_reward(reward: Any) -> None:
    with pytest.raises(NarrowingError, match=r"^reward: "):
        stepped("numpy", reward)


@pytest.mark.parametrize("reward", [Fraction(10**400), Decimal("1e400"), np.longdouble("1e4000")], ids=repr)
def test_a_number_that_would_become_infinite_is_no_reward(reward: Any) -> None:
    if isinstance(reward, np.longdouble) and np.isinf(reward):
        pytest.skip("a longdouble is a double here")
    with pytest.raises(NarrowingError, match=r"^reward: "):
        stepped("numpy", reward)


FLAGS = {
    "1": (1, True),
    "0.0": (0.0, False),
    "np.float32": (np.float32(1), True),
    "np.uint8": (np.uint8(0), False),
    "Decimal": (Decimal(1), True),
    "only __float__": (OnlyFloat(), False),
    "only __index__": (OnlyIndex(), True),
    "only __bool__": (OnlyBool(), True),
    "0-d": (np.array(1), True),
    "1-d": (np.array([True]), True),
    "0-d object": (objects(True, shape=()), True),
    "a mask that hides nothing": (np.ma.array(True), True),
}


@pytest.mark.parametrize("name", [name for name in FLAGS if name != "0-d object"])
def test_what_is_zero_or_one_is_a_flag(name: str, target: str) -> None:
    flag, want = FLAGS[name]
    assert stepped(target, terminated=flag)[2] is want


@pytest.mark.parametrize("scalars", ["python", "target"])
@pytest.mark.parametrize(
    "flag",
    [2, -1, 0.5, np.nan, np.float32("nan"), np.array(2), Decimal("0.5"), Fraction(10**9), {"a": 2}],
    ids=repr,
)
def test_a_number_other_than_zero_and_one_is_no_flag(flag: Any, scalars: Any) -> None:
    for one in (flag, 10**400, Fraction(10**400)):
        with pytest.raises(UnsupportedError, match="terminated"):
            stepped("numpy", terminated=one, scalars=scalars)


@pytest.mark.parametrize("framework", ["torch", "jax.numpy"])
def test_numbers_of_another_framework(framework: str, target: str) -> None:
    xp = pytest.importorskip(framework)
    _, reward, terminated, _, _ = stepped(target, xp.asarray([1.5]), xp.asarray([1]))
    assert (reward, terminated) == (1.5, True)
    assert (type(reward), type(terminated)) == (float, bool)
    with pytest.raises(UnsupportedError, match=r"^reward: "):
        stepped(target, xp.asarray(1j))
    with pytest.raises(UnsupportedError, match="terminated"):
        stepped(target, terminated=xp.asarray(2))


class Named(dict[str, Any]):
    """A dict with a state of its own."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.name, self.make = "a name", list


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Labelled:
    value: Any
    label: str = "a label"


CONTAINERS: dict[str, Any] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "defaultdict": lambda items: defaultdict(list, items),
    "UserDict": UserDict,
    "Named": Named,
    "list": lambda items: [*items.values()],
    "deque": lambda items: deque(items.values(), 3),
    "Pair": lambda items: Pair(*items.values()),
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("options", [{}, {"scalars": "target"}, {"reward_dtype": "float32"}], ids=str)
def test_numbers_in_containers_of_every_kind(name: str, options: Any) -> None:
    make = CONTAINERS[name]
    _, reward, terminated, _, _ = stepped(
        "numpy", make({"a": 2.0, "b": 1}), make({"a": 1, "b": 0}), **options
    )
    assert type(reward) is type(terminated) is type(make({"a": 1, "b": 2}))
    for value, want in ((reward, [2, 1]), (terminated, [True, False])):
        items = value.values() if isinstance(value, Mapping) else value
        assert [seen(one).tolist() for one in items] == want
    assert getattr(reward, "name", "a name") == "a name"
    assert getattr(reward, "default_factory", list) is list
    for bad in ("1e3", np.ma.masked, b"1"):
        with pytest.raises(UnsupportedError, match=r"^reward.*not a real number"):
            stepped("numpy", make({"a": 1.0, "b": bad}), **options)
        with pytest.raises(UnsupportedError, match=r"^terminated.*not a bool"):
            stepped("numpy", terminated=make({"a": 1.0, "b": bad}), **options)


def test_the_fields_of_a_dataclass_are_its_own(target: str) -> None:
    got = stepped(target, Labelled(np.ones(2, np.float32)), Labelled(True))
    assert seen(got[1].value).tolist() == [1, 1]
    assert (got[1].label, got[2].value) == ("a label", True)


def test_a_reward_that_contains_itself_is_an_error() -> None:
    reward: Any = {"a": 1.0}
    reward["b"] = [reward]
    for options in ({}, {"scalars": "target"}):
        with pytest.raises(CircularError, match="reward"):
            stepped("numpy", reward, **options)
        with pytest.raises(CircularError, match="terminated"):
            stepped("numpy", terminated=reward, **options)


# ---- scalars="target"


@pytest.mark.parametrize(
    "name", [name for name in REWARDS if "longdouble" not in name and "object" not in name]
)
def test_a_reward_as_an_array_has_a_number_dtype(name: str, target: str) -> None:
    reward, want = REWARDS[name]
    if name == "a large int" and target in ("jax", "mlx"):
        reward, want = 2**20, 2.0**20  # they have int32 by default
    got = stepped(target, reward, scalars="target")[1]
    assert isinstance(got, array_type_of(target))
    assert seen(got).dtype.kind in "iuf"
    assert seen(got).tolist() == (want if seen(got).ndim == 0 else [want])


@pytest.mark.parametrize("name", [name for name in FLAGS if name != "0-d object"])
def test_a_flag_as_an_array_is_of_bools(name: str, target: str) -> None:
    flag, want = FLAGS[name]
    got = stepped(target, terminated=flag, scalars="target")[2]
    assert isinstance(got, array_type_of(target))
    assert seen(got).dtype == bool
    assert np.all(seen(got) == want)


def test_flags_in_containers_become_arrays_of_bools_too(target: str) -> None:
    flags = {"a": 1, "b": [np.array([0.0, 1.0])], "__all__": False}
    got = stepped(target, terminated=flags, scalars="target")[2]
    assert [seen(got["a"]).tolist(), seen(got["b"][0]).tolist(), seen(got["__all__"]).tolist()] == [
        True,
        [False, True],
        False,
    ]
    assert {seen(one).dtype.name for one in (got["a"], got["b"][0], got["__all__"])} == {"bool"}


def test_a_flag_in_a_container_is_a_flag(target: str) -> None:
    got = stepped(target, terminated={"a": 1, "b": False, "c": None})[2]
    assert got == {"a": True, "b": False, "c": None}
    assert type(got["a"]) is bool


# ---- vector environments


class Rows(VectorEnv[Any, Any, Any]):
    """Returns the rewards and flags that it was made with."""

    def __init__(self, reward: Any, terminated: Any) -> None:
        self.num_envs, self.numbers = 2, (reward, terminated)
        self.single_observation_space = self.single_action_space = spaces.Box(-1, 1, (3,))
        self.observation_space = self.action_space = spaces.Box(-1, 1, (2, 3))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((2, 3), np.float32), {}

    def step(self, actions: Any) -> Any:
        return np.zeros((2, 3), np.float32), *self.numbers, np.zeros(2, bool), {}


def rows(target: str, reward: Any = (1.0, 2.0), terminated: Any = (False, True), **options: Any) -> Any:
    envs = arrayferry.wrap(Rows(reward, terminated), target, **options)
    envs.reset()
    actions = arrayferry.convert(np.zeros((2, 3), np.float32), target)
    first = envs.step(actions)
    second = envs.step(actions)
    for one, other in zip(first[1:4], second[1:4]):
        assert type(one) is type(other)
    return second


@pytest.mark.parametrize(
    "reward",
    [
        [1, 0],
        (1.0, 0.0),
        [np.float32(1), False],
        [True, False],
        np.array([True, False]),
        np.array([1, 0], np.int8),
        objects(1.0, 0),
        np.ma.array([1.0, 0.0]),
        [Decimal(1), Fraction(0)],
    ],
    ids=repr,
)
def test_rewards_of_a_vector_environment_are_an_array_of_numbers(reward: Any, target: str) -> None:
    for options in ({}, {"reward_dtype": "float32"}):
        got = rows(target, reward, **options)[1]
        assert isinstance(got, array_type_of(target))
        assert seen(got).dtype.kind in "iuf"
        assert seen(got).tolist() == [1, 0]


@pytest.mark.parametrize(
    "flags",
    [
        [True, False],
        (1, 0),
        np.array([1, 0]),
        np.array([1.0, 0.0]),
        np.array([1, 0], np.uint8),
        objects(True, np.False_),
        np.ma.array([True, False]),
    ],
    ids=repr,
)
def test_flags_of_a_vector_environment_are_an_array_of_bools(flags: Any, target: str) -> None:
    got = rows(target, terminated=flags)[2]
    assert isinstance(got, array_type_of(target))
    assert seen(got).dtype == bool
    assert seen(got).tolist() == [True, False]


@pytest.mark.parametrize(
    "reward",
    [
        [0.5, 2**53 + 1],
        (np.float32(0.5), np.int64(2**53 + 1)),
        objects(0.5, 2**53 + 1),
        [np.uint64(2**63 + 1), np.int64(-1)],
        [np.float32(0.5), 2**53 + 1],
    ],
    ids=repr,
)
def test_rows_are_not_rounded_to_a_common_dtype(reward: Any) -> None:
    for target in NUMPY_AND_TORCH:
        got = rows(target, reward)[1]
        want = [getattr(one, "item", lambda one=one: one)() for one in reward]
        assert [Fraction(one.item()) for one in got] == [*map(Fraction, want)]


def test_an_array_of_one_object_is_no_row(target: str) -> None:
    got = rows(target, np.array(1.5, object), np.array(True, object))
    assert got[1].shape == got[2].shape == ()
    assert (float(got[1].item()), bool(got[2].item())) == (1.5, True)


@pytest.mark.parametrize(
    ("reward", "flags", "options", "where"),
    [
        (np.array([True, False]), np.zeros(2, bool), {}, "reward"),
        (np.zeros(2), np.zeros(2, np.uint8), {}, "terminated"),
        (np.zeros(2), np.zeros(2, bool), {"reward_dtype": "float32"}, "reward"),
    ],
)
def test_rows_that_would_be_cast_cannot_be_shared(reward: Any, flags: Any, options: Any, where: str) -> None:
    for target in NUMPY_AND_TORCH:
        with pytest.raises(SharingError, match=f"(?s)^{where}: .*copy=None"):
            rows(target, reward, flags, copy=False, **options)


def test_rows_that_need_no_cast_are_shared() -> None:
    pytest.importorskip("torch")
    reward, flags = np.zeros(2), np.zeros(2, bool)
    got = rows("torch", reward, flags, copy=False)
    reward[0], flags[1] = 7, True
    assert (got[1].tolist(), got[2].tolist()) == ([7, 0], [False, True])


@pytest.mark.parametrize("framework", ["torch", "jax.numpy"])
def test_flags_of_another_framework_are_bools(framework: str, target: str) -> None:
    xp = pytest.importorskip(framework)
    got = rows(target, xp.asarray([True, False]), xp.asarray([1, 0]))
    assert isinstance(got[2], array_type_of(target))
    assert (seen(got[1]).dtype.kind, seen(got[2]).dtype) == ("f", bool)


@pytest.mark.parametrize(
    "bad",
    [
        np.array(["1", "0"]),
        objects("1", "0"),
        ["1", "0"],
        np.ma.array([1.0, 2.0], mask=[0, 1]),
        np.array([1, 0], "timedelta64[s]"),
        np.zeros(2, "f8,f8"),
        np.ones(2, complex),
        None,
        "10",
        {"a": np.array(["1", "0"])},
    ],
    ids=repr,
)
def test_rows_that_are_no_numbers_are_refused(bad: Any, target: str) -> None:
    with pytest.raises(UnsupportedError, match=r"^reward.*not a real number"):
        rows(target, bad)
    with pytest.raises(UnsupportedError, match=r"^terminated.*not a bool"):
        rows(target, terminated=bad)


def test_the_row_of_a_flag_that_is_neither_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"nan at \[1\]"):
        rows("numpy", terminated=np.array([0, np.nan]))
    with pytest.raises(UnsupportedError, match=r"2 at \[0\]"):
        rows("numpy", terminated=np.array([2, 0]))


def test_rows_that_change_are_noticed_in_the_middle() -> None:
    envs = Rows(np.zeros(2), np.zeros(2, bool))
    wrapped = arrayferry.wrap(envs, "numpy")
    wrapped.reset()
    for _ in range(3):
        wrapped.step(np.zeros((2, 3), np.float32))
    envs.numbers = np.zeros(2), np.array([0, 1])
    assert wrapped.step(np.zeros((2, 3), np.float32))[2].dtype == bool
    envs.numbers = np.ma.array([1.0, 2.0], mask=[0, 1]), np.zeros(2, bool)
    with pytest.raises(UnsupportedError, match=r"^reward"):
        wrapped.step(np.zeros((2, 3), np.float32))


def test_the_rewards_of_agents_have_paths() -> None:
    pettingzoo = pytest.importorskip("pettingzoo")

    class Agents(pettingzoo.ParallelEnv):  # type: ignore[misc,name-defined]
        metadata: Any = {"name": "agents"}  # noqa: RUF012
        possible_agents = agents = ["a", "b"]  # noqa: RUF012
        numbers: Any = ({"a": 1, "b": np.float32(2)}, {"a": 1, "b": np.False_})

        def observation_space(self, agent: Any) -> Any:
            return spaces.Discrete(2)

        action_space = observation_space

        def reset(self, seed: Any = None, options: Any = None) -> Any:
            return {"a": 0, "b": 0}, {"a": {}, "b": {}}

        def step(self, actions: Any) -> Any:
            return {"a": 0, "b": 0}, *self.numbers, {"a": False, "b": False}, {"a": {}, "b": {}}

    base = Agents()
    env = arrayferry.wrap(base, "numpy")
    env.reset()
    _, rewards, terminated, _, _ = env.step({"a": 0, "b": 1})
    assert (rewards, terminated) == ({"a": 1.0, "b": 2.0}, {"a": True, "b": False})
    assert [type(one) for one in (*rewards.values(), *terminated.values())] == [float, float, bool, bool]
    for bad in ("1e3", None, np.ma.masked, b"1"):
        base.numbers = {"a": 1.0, "b": bad}, {"a": False, "b": False}
        if bad is None:  # an agent may have no reward
            assert env.step({"a": 0, "b": 1})[1] == {"a": 1.0, "b": None}
        else:
            with pytest.raises(UnsupportedError, match=r'^reward\["b"\]: '):
                env.step({"a": 0, "b": 1})
        base.numbers = {"a": 1.0, "b": 1.0}, {"a": False, "b": bad}
        with pytest.raises(UnsupportedError, match=r'^terminated\["b"\] is '):
            env.step({"a": 0, "b": 1})


def test_gymnasium_vectors_are_as_before(target: str) -> None:
    envs = arrayferry.wrap(gym.make_vec("CartPole-v1", 2, "sync"), target)
    envs.reset(seed=1)
    _, reward, terminated, truncated, _ = envs.step(envs.action_space.sample())
    assert [seen(one).dtype.kind for one in (reward, terminated, truncated)] == ["f", "b", "b"]


# More digits than Python writes.
ENDLESS = 10**5000


@pytest.mark.parametrize(
    ("obs", "reward", "options"),
    [
        (ENDLESS, 1.0, {}),
        (ENDLESS, 1.0, {"dtypes": "space"}),
        (OBSERVATION, ENDLESS, {}),
        (OBSERVATION, ENDLESS, {"scalars": "target"}),
        (OBSERVATION, ENDLESS, {"reward_dtype": "float32"}),
    ],
    ids=["obs", "obs cast to its space", "reward", "reward as an array", "reward cast"],
)
def test_an_integer_that_cannot_even_be_written_is_an_overflow(
    obs: Any, reward: Any, options: dict[str, Any]
) -> None:
    space = spaces.Discrete(3) if obs is ENDLESS else spaces.Box(-1, 9, (3,))
    env = Scripted((obs, reward, False, False, {}), observation_space=space)
    with pytest.raises(NarrowingError, match=r"(obs|reward): an? int|int -> int64"):
        arrayferry.wrap(env, "numpy", **options).step(0)


def test_an_action_that_cannot_even_be_written_is_an_overflow() -> None:
    env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy")
    env.reset()
    with pytest.raises(NarrowingError, match="action: int -> int64 numpy: an integer of 16610 bits does not"):
        env.step(ENDLESS)
