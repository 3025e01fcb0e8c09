"""Observations in the dtypes that their space declares, and a reward in the dtype that was asked for."""

from __future__ import annotations

import pickle
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry.errors import KeptWarning, NarrowingError, OptionError, SharingError, UnsupportedError
from arrayferry.spaces import cast_to_space

SPACE = spaces.Dict(
    x=spaces.Box(-9, 9, (2,), np.float32), n=spaces.Discrete(5), image=spaces.Box(0, 255, (2,), np.uint8)
)


class Pair(NamedTuple):
    one: Any


class Sloppy(gym.Env[Any, Any]):
    """Declares dtypes that it does not keep to."""

    observation_space, action_space = SPACE, spaces.Discrete(2)

    def __init__(self, image: Any = (1.0, 2.0), reward: Any = 1.1) -> None:
        self.image, self.reward = np.array(image), reward

    def observation(self) -> Any:
        return {"x": np.zeros(2), "n": 3, "image": self.image.copy()}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        return self.observation(), self.reward, True, False, {}


@pytest.mark.parametrize(
    "to", [name for name in ("numpy", "torch", "jax") if name in arrayferry.frameworks()]
)
def test_observations_have_the_dtypes_of_their_space(to: str) -> None:
    env = arrayferry.wrap(Sloppy(), to, dtypes="space")
    for obs in (env.reset()[0], env.step(1)[0]):
        back = arrayferry.convert(obs, "numpy")
        assert back["x"].dtype == np.float32
        assert back["image"].dtype == np.uint8
        assert back["n"].dtype in (np.int64, np.int32)  # JAX without x64
        assert back["image"].tolist() == [1, 2]


@pytest.mark.parametrize("image", [[1.5, 2.0], [256.0, 0.0], [-1.0, 0.0], [np.nan, 0.0], [np.inf, 0.0]])
def test_a_float_becomes_an_integer_only_if_it_is_whole_and_in_range(image: Any) -> None:
    env = arrayferry.wrap(Sloppy(image), "numpy", dtypes="space")
    with pytest.raises(NarrowingError, match=r'^obs\["image"\]: .*uint8'):
        env.reset()


@pytest.mark.parametrize(
    ("space", "value", "dtype"),
    [
        (spaces.Box(-1, 1, (1,), np.float32), np.array([2**24], np.int64), "float32"),
        (spaces.Box(-1, 1, (), np.float64), 3, "float64"),
        (spaces.MultiBinary(2), np.array([True, False]), "int8"),
        (spaces.Box(0, 3, (), np.int32), np.int64(2), "int32"),
    ],
)
def test_other_kinds(space: Any, value: Any, dtype: str) -> None:
    assert cast_to_space(space, value).dtype == dtype


def test_an_integer_that_a_float_would_round_is_refused() -> None:
    with pytest.raises(OverflowError):
        cast_to_space(spaces.Box(-1, 1, (1,), np.float32), np.array([2**24 + 1]))


def test_what_has_another_structure_stays_as_it_is() -> None:
    for value in ({"other": 1}, [1, 2, 3], "text", np.zeros(3)):
        with pytest.warns(KeptWarning, match=r"^obs: .* stays as it is"):
            assert cast_to_space(SPACE, value) is value
    for space in (
        spaces.Tuple([spaces.Discrete(3)] * 2),
        spaces.Box(-1, 1, (2,)),
        spaces.Graph(SPACE["x"], None),
    ):
        with pytest.warns(KeptWarning, match=r"^obs: .* stays as it is"):
            assert cast_to_space(space, value := {"x": 1}) is value
    assert cast_to_space(SPACE, None) is None
    assert cast_to_space(SPACE, {}) == {}
    assert cast_to_space(spaces.Text(3), "abc") == "abc"


def test_what_is_no_number_stays_as_it_is() -> None:
    box = spaces.Box(-1, 1, (2,))
    for value in (
        np.ma.array([1.0, 2.0], mask=[False, True]),
        np.zeros(2, [("a", float)]),
        np.array(["1", "2"]),
        np.array(["2020-01-01"] * 2, "M8[D]"),
        "text",
    ):
        with pytest.warns(KeptWarning, match=r"^obs: .* stays as it is"):
            assert cast_to_space(box, value) is value


def test_complex_numbers_and_huge_integers_are_refused() -> None:
    with pytest.raises(NarrowingError, match="1\\+2j"):
        cast_to_space(spaces.Box(-1, 1, (2,)), np.array([1 + 2j, 3]))
    with pytest.raises(NarrowingError, match="does not fit"):
        cast_to_space(spaces.Discrete(3), 2**70)


def test_containers_come_back_as_themselves() -> None:
    space = spaces.Dict(x=spaces.Box(-1, 1, (2,)), y=spaces.Tuple([spaces.Discrete(3)]))
    value = OrderedDict(y=Pair(1), x=np.zeros(2))
    found = cast_to_space(space, value)
    assert type(found) is OrderedDict
    assert list(found) == ["y", "x"]
    assert type(found["y"]) is Pair
    assert found["y"].one.dtype == np.int64
    assert found["x"].dtype == np.float32
    with pytest.raises(NarrowingError, match=r'^obs\["y"\]\[0\]'):
        cast_to_space(space, {"y": [1.5]})


class Shown(Mapping[Any, Any]):
    """A mapping of the user's own, which also holds other things under the same keys."""

    def __init__(self, items: Any) -> None:
        self._items, self.units = dict(items), {"x": "m"}

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class Doubled(UserDict[Any, Any]):
    """A mapping that computes its values."""

    def __getitem__(self, key: Any) -> Any:
        return 2 * super().__getitem__(key)


@dataclass
class Fields:
    x: Any
    n: Any
    image: Any


class Named(NamedTuple):
    x: Any
    n: Any
    image: Any


class Extended(dict[Any, Any]):
    """A dict with attributes, one of which is called like an item."""

    x = "metres"


def tensordict(items: Any) -> Any:
    torch = pytest.importorskip("torch")
    module = pytest.importorskip("tensordict")
    return module.TensorDict({key: torch.as_tensor(value) for key, value in items.items()})


CONTAINERS: dict[str, Any] = {
    "dict": dict,
    "dict subclass": Extended,
    "UserDict": UserDict,
    "Mapping": Shown,
    "dataclass": lambda items: Fields(**items),
    "namedtuple": lambda items: Named(**items),
    "TensorDict": tensordict,
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_any_container_with_the_structure_of_the_space_is_cast(kind: str) -> None:
    value = CONTAINERS[kind]({"x": np.array([1.0, 2.0]), "n": np.int32(3), "image": np.array([1.0, 2.0])})
    found = cast_to_space(SPACE, value)
    assert type(found) is type(value)
    by_name = kind in ("dataclass", "namedtuple")
    parts = {key: getattr(found, key) if by_name else found[key] for key in ("x", "n", "image")}
    names = {key: arrayferry.convert(part, "numpy").dtype.name for key, part in parts.items()}
    assert names == {"x": "float32", "n": "int64", "image": "uint8"}
    if kind == "Mapping":
        assert found.units == {"x": "m"}
    lost = CONTAINERS[kind]({"x": np.array([1e300, 2.0]), "n": np.int32(3), "image": np.array([1.0, 2.0])})
    with pytest.raises(NarrowingError, match=r"^obs.*x.*1e\+300"):
        cast_to_space(SPACE, lost)


def test_container_that_hides_its_items_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="register_container"):
        cast_to_space(SPACE, Doubled(x=np.zeros(2)))
    with pytest.raises(UnsupportedError, match="register_container"):
        cast_to_space(SPACE, ChainMap({"x": np.zeros(2)}, {"n": 3}))


def test_other_keys_and_missing_ones_do_not_matter() -> None:
    found = cast_to_space(SPACE, {"x": np.zeros(2), "extra": 1.5, 7: None})
    assert found["x"].dtype == np.float32
    assert found["extra"] == 1.5
    assert set(found) == {"x", "extra", 7}


@pytest.mark.parametrize(
    "kind", [list, tuple, deque, UserList, lambda items: np.array([*items, None], object)[:-1]]
)
def test_sequences_have_the_structure_of_a_tuple_or_a_sequence(kind: Any) -> None:
    value = kind([np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    box = spaces.Box(0, 9, (2,), np.uint8)
    for space in (spaces.Tuple([box, box]), spaces.Sequence(box)):
        found = cast_to_space(space, value)
        assert type(found) is type(value)
        assert [part.dtype for part in found] == [np.uint8, np.uint8]
        assert found[1].tolist() == [3, 4]
        with pytest.raises(NarrowingError, match=r"^obs\[1\]: .*-1.0"):
            cast_to_space(space, kind([np.zeros(2), np.array([0.0, -1.0])]))


@pytest.mark.parametrize(
    "value",
    [
        [1.0, 2.0],
        (1, 2.0),
        deque([np.float64(1), True]),
        [[1.0, 2.0], [3.0, np.zeros(2)]],
        np.array([1.0, 2], object),
        np.array([1, 2], np.longdouble),
        np.longdouble(3),
        np.clongdouble(3),
        3 + 0j,
    ],
    ids=repr,
)
def test_every_number_in_place_of_an_array_is_cast(value: Any) -> None:
    found = cast_to_space(spaces.Box(-9, 9, (2,), np.float32), value)
    assert type(found) is type(value) or isinstance(found, np.float32)
    assert {leaf.dtype for leaf in leaves_of(found)} == {np.dtype("float32")}


def leaves_of(value: Any) -> Any:
    if isinstance(value, (list, tuple, deque)) or (isinstance(value, np.ndarray) and value.dtype == object):
        return [leaf for part in value for leaf in leaves_of(part)]
    return [value]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ([0.5, 2**24 + 1], r"\[1\]"),
        ([1e300, 0.0], r"\[0\]"),
        ([[0.0, 1e300]], r"\[0\]\[1\]"),
        (np.array([0.5, 2**70], object), r"\[1\]"),
        (np.array(["1e3900"], np.longdouble), ""),
        (np.longdouble("1e39"), ""),
        (1 + 2j, ""),
        (2**200, ""),
        (10**400, ""),
    ],
    ids=repr,
)
def test_no_number_in_place_of_an_array_is_lost(value: Any, where: str) -> None:
    with pytest.raises(NarrowingError, match=rf"^obs{where}: .* does not fit"):
        cast_to_space(spaces.Box(-9, 9, (2,), np.float32), value)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Box(0, 255, (1,), np.uint8), np.array([-1])),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([256.0])),
        (spaces.Discrete(3), np.float64(0.5)),
        (spaces.Discrete(3), np.nan),
        (spaces.Discrete(3), np.float32(2.0**63)),
        (spaces.Discrete(3), np.uint64(2**63)),
        (spaces.MultiBinary(1), np.array([128])),
        (spaces.Box(-1, 1, (1,), np.float64), np.array([2**53 + 1])),
        (spaces.Box(-1, 1, (1,), np.float16), np.array([65536.0])),
    ],
    ids=str,
)
def test_number_that_a_space_cannot_hold_is_refused(space: Any, value: Any) -> None:
    with pytest.raises(NarrowingError, match=r"^obs: .* does not fit"):
        cast_to_space(space, value)


def test_arrays_stay_in_their_framework_if_it_has_the_dtype() -> None:
    jax = pytest.importorskip("jax")
    array = jax.numpy.array([1, 2], "int32")
    assert cast_to_space(spaces.Box(-1, 1, (2,), np.float32), array).dtype == "float32"
    assert isinstance(cast_to_space(spaces.Box(-1, 1, (2,), np.float32), array), jax.Array)
    with jax.enable_x64(False):
        assert isinstance(cast_to_space(spaces.Box(-1, 1, (2,), np.float64), array), np.ndarray)
    with pytest.raises(NarrowingError, match="16777217"):
        cast_to_space(spaces.Box(-1, 1, (1,), np.float32), jax.numpy.array([2**24 + 1], "int32"))


@pytest.mark.parametrize("to", ["numpy", "torch"])
@pytest.mark.parametrize("kind", [UserDict, Shown, lambda items: Named(**items)])
def test_wrapped_environment_casts_any_container(to: str, kind: Any) -> None:
    pytest.importorskip(to)

    class Unusual(Sloppy):
        def observation(self) -> Any:
            return kind(super().observation())

    env = arrayferry.wrap(
        Unusual(reward=UserDict(a=np.longdouble("1.5"))), to, dtypes="space", reward_dtype="float32"
    )
    obs = env.reset()[0]
    obs, reward, *_ = env.step(1)
    x = obs.x if isinstance(obs, Named) else obs["x"]
    assert arrayferry.convert(x, "numpy").dtype == np.float32
    assert arrayferry.convert(reward["a"], "numpy").dtype == np.float32


def test_shared_memory_is_not_cast() -> None:
    env = arrayferry.wrap(Sloppy(), "numpy", dtypes="space", copy=False)
    with pytest.raises(SharingError, match=r'^obs\["x"\]'):
        env.reset()


def test_many_rewards_are_cast_one_by_one() -> None:
    env = arrayferry.wrap(Sloppy(reward={"a": 1.1, "b": [2.2, None]}), "numpy", reward_dtype="float32")
    env.reset()
    reward: Any = env.step(0)[1]
    assert (reward["a"].dtype, reward["b"][0].dtype, reward["b"][1]) == (np.float32, np.float32, None)


@pytest.mark.parametrize(
    "reward",
    [
        [1.0, 2**24 + 1],
        Shown({"a": 1e39}),
        UserDict(a=-1e39),
        Fields(1.0, 2.0, 1e39),
        np.array([1.0, 1e39], object),
        np.longdouble("1e39"),
        np.array([2**24 + 1]),
    ],
    ids=lambda reward: type(reward).__name__,
)
def test_reward_of_any_kind_that_does_not_fit_is_refused(reward: Any) -> None:
    env = arrayferry.wrap(Sloppy(reward=reward), "numpy", reward_dtype="float32")
    env.reset()
    with pytest.raises(NarrowingError, match=r"^reward.* does not fit"):
        env.step(0)


@pytest.mark.parametrize(("dtype", "reward"), [("float16", 65536.0), ("float64", 2**53 + 1), ("int8", 0.5)])
def test_reward_dtype_holds_the_reward_or_it_is_refused(dtype: str, reward: Any) -> None:
    env = arrayferry.wrap(Sloppy(reward=reward), "numpy", reward_dtype=dtype)
    env.reset()
    with pytest.raises(NarrowingError, match=r"^reward: .* does not fit"):
        env.step(0)


def test_arrays_of_other_frameworks() -> None:
    torch = pytest.importorskip("torch")
    found = cast_to_space(SPACE, {"x": torch.zeros(2, dtype=torch.float64)})["x"]
    assert found.dtype == torch.float32
    kept = torch.zeros(2)
    assert cast_to_space(SPACE, {"x": kept})["x"] is kept


def test_final_observations_of_a_vector_are_cast_as_well() -> None:
    class Tidy(Sloppy):
        def observation(self) -> Any:
            return cast_to_space(SPACE, super().observation())

    mode = gym.vector.AutoresetMode.SAME_STEP
    vector = gym.vector.SyncVectorEnv([Tidy, Tidy], autoreset_mode=mode)
    replace_final(vector, {"image": np.array([3.0, 4.0])})
    envs = arrayferry.wrap(vector, "numpy", dtypes="space")
    envs.reset()
    final = envs.step(np.zeros(2, np.int64))[4]["final_obs"]
    assert (final[0]["image"].dtype, final[1]["image"].dtype) == (np.uint8, np.uint8)
    assert final[0]["image"].tolist() == [3, 4]


def replace_final(vector: Any, row: Any, kind: Any = None) -> None:
    """Let a vector return another final observation of its first environment, in another container."""
    real = vector.step

    def step(actions: Any) -> Any:
        *rest, info = real(actions)
        info["final_obs"][0] = row
        if kind is not None:
            info["final_obs"] = kind(info["final_obs"])
        return *rest, info

    vector.step = step


@pytest.mark.parametrize("scalars", ["python", "target"])
def test_the_reward_is_cast_alone(scalars: Any) -> None:
    env = arrayferry.wrap(Sloppy(), "numpy", reward_dtype="float32", scalars=scalars)
    env.reset()
    obs, reward, *_ = env.step(0)
    assert reward == np.float32(1.1)
    assert type(reward) is float if scalars == "python" else reward.dtype == np.float32
    assert obs["x"].dtype == np.float64


def test_the_rewards_of_a_vector() -> None:
    vector = gym.vector.SyncVectorEnv([partial(gym.make, "CartPole-v1")] * 2)
    for options in ({}, {"dtypes": "space"}, {"dtypes": {"float32": "float64"}}):
        envs = arrayferry.wrap(vector, "numpy", reward_dtype=np.float32, **options)  # type: ignore[call-overload]
        envs.reset(seed=1)
        assert envs.step(np.zeros(2, np.int64))[1].dtype == np.float32


def test_a_reward_that_does_not_fit_is_refused() -> None:
    env = arrayferry.wrap(Sloppy(reward=1e300), "numpy", reward_dtype="float32")
    env.reset()
    with pytest.raises(NarrowingError, match=r"^reward: "):
        env.step(0)
    with pytest.raises(OptionError, match="reward_dtype"):
        arrayferry.wrap(Sloppy(), "numpy", reward_dtype="float33")
    with pytest.raises(OptionError, match="dtypes"):
        arrayferry.wrap(Sloppy(), "numpy", dtypes="spaces")  # type: ignore[call-overload]


def test_both_are_recorded_and_pickled() -> None:
    env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy", dtypes="space", reward_dtype=np.float32)
    for twin in (gym.make(env.spec), pickle.loads(pickle.dumps(env))):
        assert twin.spec.to_json() == env.spec.to_json()
        assert twin.reset(seed=1)[0].dtype == np.float32


# ---- dense_final


@pytest.mark.parametrize(
    "row",
    [
        np.array([300.0, 0.0]),
        np.array([0.5, 0.0]),
        np.zeros(3),
        "text",
        [0, 256],
        (0.5, 0.0),
        [0.0, 1e300],
        np.array([0, 256], np.longdouble),
        np.array([0, 256], object),
        np.ma.array([1, 2], mask=[True, False]),
        np.ma.array([1, 2], np.uint8, mask=[True, False]),
        {"x": 1},
        [[1, 2]],
        ["1", "2"],
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", [None, list, tuple])
def test_a_dense_batch_refuses_what_its_dtype_does_not_hold(row: Any, kind: Any) -> None:
    class Ending(Sloppy):
        observation_space = spaces.Box(0, 255, (2,), np.uint8)

        def observation(self) -> Any:
            return np.zeros(2, np.uint8)

    mode = gym.vector.AutoresetMode.SAME_STEP
    vector = gym.vector.SyncVectorEnv([Ending], autoreset_mode=mode)
    replace_final(vector, row, kind)
    envs = arrayferry.wrap(vector, "numpy", dense_final=True)
    envs.reset()
    with pytest.raises(arrayferry.FerryError, match=r'^info\["final_obs"\]'):
        envs.step(np.zeros(1, np.int64))


class Two(Sloppy):
    """Ends its episode in every other environment."""

    observation_space: Any = spaces.Box(0, 255, (2,), np.float32)
    made = 0

    def __init__(self) -> None:
        super().__init__()
        self.ends, type(self).made = type(self).made % 2 == 0, type(self).made + 1

    def observation(self) -> Any:
        return self.observation_space.low

    def step(self, action: Any) -> Any:
        return self.observation(), 1.0, self.ends, False, {}


@pytest.mark.parametrize("kind", [None, list, tuple, UserList])
@pytest.mark.parametrize(
    "row", [[1, 2.0], (1.0, 2), np.array([1, 2], np.longdouble), np.array([1, 2.0], object)]
)
@pytest.mark.parametrize("option", [{"dense_final": True}, {"dtypes": "space"}], ids=str)
def test_rows_in_any_container_are_cast(kind: Any, row: Any, option: Any) -> None:
    if "dense_final" in option and isinstance(row, np.ndarray) and row.dtype == object:
        pytest.skip("an array of objects is no row of a batch of numbers: refused")
    vector = gym.vector.SyncVectorEnv([Two, Two], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    replace_final(vector, row, kind)
    envs = arrayferry.wrap(vector, "numpy", **option)
    envs.reset()
    final = envs.step(np.zeros(2, np.int64))[4]["final_obs"]
    if "dense_final" in option:
        assert (final.dtype, final.tolist()) == (np.float32, [[1, 2], [0, 0]])
    else:
        assert {np.asarray(leaf).dtype for leaf in leaves_of(final[0])} == {np.dtype("float32")}
        assert final[1] is None
        assert kind is None or type(final) is kind


@pytest.mark.parametrize("kind", [None, list, tuple])
@pytest.mark.parametrize(
    ("row", "lost"),
    [
        ([1e300, 0.0], r"\[0\]: .*1e\+300"),
        ([0.5, 2**24 + 1], r"\[1\]: .*16777217"),
        (np.array(["1e300", "0"], np.longdouble), r": .*1e\+300"),
        (np.array([2**24 + 1, 0]), ": .*16777217"),
    ],
    ids=str,
)
def test_number_in_a_row_that_a_dense_batch_would_change_is_refused(row: Any, lost: str, kind: Any) -> None:
    vector = gym.vector.SyncVectorEnv([Two, Two], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    replace_final(vector, row, kind)
    envs = arrayferry.wrap(vector, "numpy", dense_final=True)
    envs.reset()
    with pytest.raises(NarrowingError, match=rf'^info\["final_obs"\]\[0\]{lost}.* does not fit'):
        envs.step(np.zeros(2, np.int64))


def test_batch_of_a_tuple_space_stays_a_batch() -> None:
    class Pairs(Two):
        observation_space = spaces.Tuple([Two.observation_space, spaces.Discrete(3)])

        def observation(self) -> Any:
            return np.zeros(2, np.float32), np.int64(1)

    vector = gym.vector.SyncVectorEnv([Pairs, Pairs], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    envs = arrayferry.wrap(vector, "numpy", dense_final=True, dtypes="space")
    envs.reset()
    final = envs.step(np.zeros(2, np.int64))[4]["final_obs"]
    assert [part.shape for part in final] == [(2, 2), (2,)]
    again = arrayferry.wrap(arrayferry.wrap(vector, "numpy", dense_final=True), "numpy", dense_final=True)
    again.reset()
    final = again.step(np.zeros(2, np.int64))[4]["final_obs"]
    assert [(part.shape, part.dtype) for part in final] == [((2, 2), np.float32), ((2,), np.int64)]
