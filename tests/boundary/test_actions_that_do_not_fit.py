"""An action that is no member goes through converted, as it is: the environment is the judge."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from boundary.test_actions import received
from helpers.compare import held


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Box(-1, 1, (3,), np.float32), np.zeros(2, np.float32)),
        (spaces.Box(-1, 1, (3,), np.float32), np.zeros((1, 3), np.float32)),
        (spaces.Box(-1, 1, (3,), np.float32), np.array(0.5, np.float32)),
        (spaces.Discrete(4), np.array([1], np.int32)),
        (spaces.Discrete(4), np.array([[0.5, 0.5]], np.float32)),
        (spaces.Discrete(4), np.array(1.5, np.float32)),
        (spaces.Discrete(4), np.array(2.0, np.float32)),
        (spaces.MultiDiscrete([3, 4]), np.array([1.0, 2.0], np.float32)),
        (spaces.Box(0, 9, (2,), np.uint8), np.array([1.0, 2.0], np.float32)),
        (spaces.MultiDiscrete([3, 4]), np.array([0.5, 1.5], np.float32)),
        (spaces.MultiBinary(2), np.array([0, 1, 1], np.int8)),
    ],
    ids=str,
)
def test_another_shape_or_kind_is_only_converted(space: Any, action: np.ndarray, target: str) -> None:
    got = received(space, arrayferry.convert(action, target), target)
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape) == (action.dtype, action.shape)
    np.testing.assert_array_equal(got, action)


@pytest.mark.needs("gymnasium>=1.2.2")  # Discrete(dtype=)
@pytest.mark.parametrize(
    ("dtype", "value"), [(np.uint8, 256), (np.uint8, -1), (np.int8, 128), (np.int32, 2**31), (np.uint8, 1000)]
)
def test_a_number_out_of_range_is_not_wrapped_around(dtype: Any, value: int, target: str) -> None:
    if value > np.iinfo(held(np.int64, target)).max:
        pytest.skip(f"{target} cannot hold {value} in the first place")
    action = arrayferry.convert(np.array(value), target)
    for space in (spaces.Discrete(5, dtype=dtype), spaces.Box(0, 9, (), dtype)):
        got = received(space, action, target)
        assert int(got) == value
        assert not space.contains(got)


def test_a_float_that_would_become_infinite_is_not_cast() -> None:
    pytest.importorskip("torch")
    got = received(
        spaces.Box(-1, 1, (1,), np.float16), arrayferry.convert(np.array([1e30]), "torch"), "torch"
    )
    assert got.tolist() == [1e30]


def test_a_missing_key_or_an_item_too_many_is_only_converted(target: str) -> None:
    space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Discrete(3))
    got = received(space, {"a": arrayferry.convert(np.array(1, np.int32), target)}, target)
    assert list(got) == ["a"]
    assert isinstance(got["a"], np.ndarray)
    assert got["a"] == 1
    pair = spaces.Tuple((spaces.Discrete(3),))
    got = received(
        pair, tuple(arrayferry.convert(np.arange(2, dtype=np.int32), target) for _ in range(3)), target
    )
    assert len(got) == 3
    assert all(isinstance(item, np.ndarray) and item.tolist() == [0, 1] for item in got)


def test_none_and_strings_arrive_as_they_are(target: str) -> None:
    for action in (None, "left", b"right"):
        assert received(spaces.Discrete(3), action, target) is action


def test_an_unknown_space_gets_the_converted_action(target: str) -> None:
    class Anything(spaces.Space[Any]):
        def sample(self, mask: Any = None, probability: Any = None) -> Any:
            return np.zeros(2)

    got = received(Anything(), arrayferry.convert(np.array([1, 2], np.int32), target), target)
    assert isinstance(got, np.ndarray)
    assert got.tolist() == [1, 2]


# The environments of Gymnasium that use the action as a key, an index or a number.
@pytest.mark.parametrize(
    "name", ["FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1", "CartPole-v1", "Acrobot-v1"]
)
def test_toy_text_steps_with_the_target_s_actions(name: str, target: str) -> None:
    bare, env = gym.make(name), arrayferry.wrap(gym.make(name), target)
    bare.reset(seed=5)
    env.reset(seed=5)
    bare.action_space.seed(5)
    for _ in range(8):
        action = bare.action_space.sample()
        want = bare.step(action)
        got = env.step(arrayferry.convert(np.asarray(action), target))
        assert got[1:4] == (float(want[1]), want[2], want[3])
        if want[2] or want[3]:
            bare.reset()
            env.reset()
    bare.close()
    env.close()


def test_an_index_of_a_policy_s_own_making(target: str) -> None:
    """`argmax` gives int64 in torch and int32 in JAX: both are keys of FrozenLake's table."""
    env = arrayferry.wrap(gym.make("FrozenLake-v1", is_slippery=False), target)
    env.reset(seed=1)
    obs, *_ = env.step(arrayferry.convert(np.array(2, held(np.int64, target)), target))
    assert int(obs) == 1


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Box(-1, 1, (2,), np.float32), [2**24 + 1, 0.5]),
        (spaces.Box(-1, 1, (2,), np.float64), [2**53 + 1, 0.5]),
        (spaces.Box(-1, 1, (1, 2), np.float16), [[0.5, 2049]]),
        (spaces.Box(0, 9, (2,), np.int64), [np.uint64(2**63 + 1), -1]),
    ],
    ids=str,
)
def test_integer_among_other_numbers_is_not_rounded(space: Any, action: Any) -> None:
    got = received(space, action, "numpy")
    assert not isinstance(got, np.ndarray)
    assert arrayferry.convert(got, "numpy") == action
    whole = received(space, [[2, 1.0]] if space.shape == (1, 2) else [2, 1.0], "numpy")
    assert isinstance(whole, np.ndarray)
    assert np.ravel(whole).tolist() == [2, 1]
