"""Vector environments, such as EnvPool's, whose spaces are those of a single environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from helpers.envs import BOX


class Unbatched(gym.vector.VectorEnv[Any, Any, Any]):
    """Keeps the actions that it was given."""

    num_envs = 3
    observation_space = single_observation_space = BOX

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.action_space = self.single_action_space = action_space
        self.actions: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((3, 3), np.float32), {}

    def step(self, actions: Any) -> Any:
        self.actions.append(actions)
        return np.zeros((3, 3), np.float32), np.zeros(3), np.zeros(3, bool), np.zeros(3, bool), {}


@pytest.mark.parametrize(
    ("space", "action", "dtype"),
    [
        (spaces.Discrete(5), np.array([1, 4, 0], np.int32), np.int64),
        (spaces.Box(-1, 1, (2,)), np.ones((3, 2), np.float64), np.float32),
        (spaces.MultiDiscrete([3, 4]), np.ones((3, 2), np.int16), np.int64),
    ],
)
def test_actions_are_members_of_the_batched_space(space: Any, action: Any, dtype: Any, target: str) -> None:
    env = Unbatched(space)
    wrapped = arrayferry.wrap(env, target)
    wrapped.reset()
    wrapped.step(arrayferry.convert(action, target))
    assert type(env.actions[0]) is np.ndarray
    assert env.actions[0].dtype == dtype
    assert env.actions[0].tolist() == action.tolist()
    assert wrapped.action_space is space, "it shows the environment's own"


def test_another_space_at_that_moment() -> None:
    env = Unbatched(spaces.Box(-1, 1, (2,)))
    wrapped = arrayferry.wrap(env, "numpy")
    wrapped.reset()
    env.action_space = env.single_action_space = spaces.Box(-1, 1, (4,), np.float64)
    wrapped.step(np.ones((3, 4), np.float32))
    assert env.actions[0].dtype == np.float64


def test_explain_and_check_sample_for_all_of_them(target: str) -> None:
    env = Unbatched(spaces.Discrete(5))
    explanation = arrayferry.explain(env, target, steps=2)
    assert explanation.ok
    assert next(leaf for leaf in explanation.leaves if leaf.path == "action").shape == (3,)
    report = arrayferry.check(env, target, steps=4)
    assert not report.findings, "an observation of all of them is in the batched space"
    assert {np.shape(actions) for actions in env.actions} == {(3,)}
