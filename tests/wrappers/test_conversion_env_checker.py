"""Gymnasium's own checker finds no more in a wrapped environment than in the bare one."""

from __future__ import annotations

import re
import warnings
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

import arrayferry
from helpers.envs import Counter

# What it may say: it is meant for bare environments; and a number, once converted, is a 0-d array.
EXPECTED = re.compile(
    r"is different from the unwrapped version|should be an int or np\.int64, actual type: .*ndarray"
)


def complaints(env: gym.Env[Any, Any]) -> set[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True)
    env.close()
    return {str(warning.message) for warning in caught if not EXPECTED.search(str(warning.message))}


@pytest.mark.parametrize("options", [{}, {"spaces": "target"}, {"copy": True}], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "CartPole-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Pendulum-v1",
        "Acrobot-v1",
        "FrozenLake-v1",
        "Taxi-v4",
        "CliffWalking-v1",
        "Blackjack-v1",
    ],
)
def test_no_more_complaints_than_about_the_bare_environment(name: str, options: dict[str, Any]) -> None:
    bare = gym.make(name, disable_env_checker=True)
    wrapped = arrayferry.wrap(gym.make(name, disable_env_checker=True), "numpy", **options)
    assert complaints(wrapped) <= complaints(bare)


def test_the_checker_still_finds_what_is_wrong() -> None:
    """So that the tests above can fail."""
    liar = arrayferry.wrap(Counter(show=lambda count: {"not": "in the space"}), "numpy")
    with pytest.raises((AssertionError, TypeError, ValueError)):
        complaints(liar)
    vain = arrayferry.wrap(Counter(observation_space=gym.spaces.Box(-float("inf"), 9, (3,))), "numpy")
    assert any("infinity" in text for text in complaints(vain))


def test_the_passive_checker_accepts_what_goes_in_and_out(target: str) -> None:
    """`gym.make` puts the passive checker inside: it sees every action, as a member."""
    env = arrayferry.wrap(gym.make("CartPole-v1"), target, spaces="target")
    env.reset(seed=1)
    for _ in range(3):
        obs, *_ = env.step(env.action_space.sample())
        assert env.observation_space.contains(obs)
    env.close()
