"""`sb3_vec_env` asks environments in Ray's actors as it asks those in worker processes."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from arrayferry.learners import sb3_vec_env
from arrayferry.scale import RayVectorEnv
from learners.counting import Counting, Named, limited

vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),  # Ray's, about itself
    pytest.mark.usefixtures("ray_cluster"),
]


def env_fns() -> list[Any]:
    return [partial(limited, length) for length in (2, 3, 5)]


def test_actors_are_asked_and_set() -> None:
    ours, theirs = sb3_vec_env(RayVectorEnv(env_fns(), workers=2)), vec_env.DummyVecEnv(env_fns())
    for indices in (None, 1, [2, 0], range(1, 3)):
        assert ours.get_attr("length", indices) == theirs.get_attr("length", indices)
        assert ours.env_method("shout", "hi", indices=indices) == theirs.env_method(
            "shout", "hi", indices=indices
        )
        for wrapper in (Named, gym.wrappers.TimeLimit, gym.wrappers.RescaleAction):
            assert ours.env_is_wrapped(wrapper, indices) == theirs.env_is_wrapped(wrapper, indices)
    ours.set_attr("length", 9, indices=[1])
    assert ours.get_attr("length") == [2, 9, 5]
    assert callable(ours.get_attr("reset")[0])
    assert not ours.has_attr("nothing")
    ours.close()


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_steps_are_what_dummy_vec_env_shows(mode: AutoresetMode) -> None:
    ours = sb3_vec_env(RayVectorEnv([Counting] * 3, workers=2, autoreset_mode=mode))
    theirs = vec_env.DummyVecEnv([Counting] * 3)
    for venv in (ours, theirs):
        venv.seed(5)
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    for actions in np.random.default_rng(0).integers(0, 3, (12, 3)):
        for part, wanted in zip(ours.step(actions)[:3], theirs.step(actions)[:3], strict=True):
            np.testing.assert_array_equal(part, wanted)
        assert ours.reset_infos == theirs.reset_infos
    ours.close()
