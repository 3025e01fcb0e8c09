"""Observations in the dtypes that their space declares, and a reward in the dtype that was asked for."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry.errors import NarrowingError, OptionError, SharingError
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
    for value in ({"other": 1}, [1, 2, 3], "text", None):
        assert cast_to_space(SPACE, value) is value
    assert cast_to_space(spaces.Text(3), "abc") == "abc"


def test_what_is_no_number_stays_as_it_is() -> None:
    box = spaces.Box(-1, 1, (2,))
    for value in (
        np.ma.array([1.0, 2.0], mask=[False, True]),
        np.zeros(2, [("a", float)]),
        np.array(["1", "2"]),
        np.array(["2020-01-01"] * 2, "M8[D]"),
    ):
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


def test_shared_memory_is_not_cast() -> None:
    env = arrayferry.wrap(Sloppy(), "numpy", dtypes="space", copy=False)
    with pytest.raises(SharingError, match=r'^obs\["x"\]'):
        env.reset()


def test_many_rewards_are_cast_one_by_one() -> None:
    env = arrayferry.wrap(Sloppy(reward={"a": 1.1, "b": [2.2, None]}), "numpy", reward_dtype="float32")
    env.reset()
    reward: Any = env.step(0)[1]
    assert (reward["a"].dtype, reward["b"][0].dtype, reward["b"][1]) == (np.float32, np.float32, None)


def test_arrays_of_other_frameworks() -> None:
    torch = pytest.importorskip("torch")
    found = cast_to_space(SPACE, {"x": torch.zeros(2, dtype=torch.float64)})["x"]
    assert found.dtype == np.float32
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


def replace_final(vector: Any, row: Any) -> None:
    """Let a vector return another final observation of its first environment."""
    real = vector.step

    def step(actions: Any) -> Any:
        *rest, info = real(actions)
        info["final_obs"][0] = row
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


@pytest.mark.parametrize("row", [np.array([300.0, 0.0]), np.array([0.5, 0.0]), np.zeros(3), "text"])
def test_a_dense_batch_refuses_what_its_dtype_does_not_hold(row: Any) -> None:
    class Ending(Sloppy):
        observation_space = spaces.Box(0, 255, (2,), np.uint8)

        def observation(self) -> Any:
            return np.zeros(2, np.uint8)

    mode = gym.vector.AutoresetMode.SAME_STEP
    vector = gym.vector.SyncVectorEnv([Ending], autoreset_mode=mode)
    replace_final(vector, row)
    envs = arrayferry.wrap(vector, "numpy", dense_final=True)
    envs.reset()
    with pytest.raises(arrayferry.FerryError, match=r'^info\["final_obs"\]'):
        envs.step(np.zeros(1, np.int64))
