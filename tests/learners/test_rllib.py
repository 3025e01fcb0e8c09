"""RLlib's environment runners, of the new API stack, see what the bare environment returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import arrayferry
from learners.bare import cart_pole

pytest.importorskip("flax")
pytest.importorskip("ray.rllib")
pytestmark = [
    pytest.mark.learners,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
SEED = 11


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_its_episodes_are_the_bare_environment_s() -> None:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
    from ray.tune.registry import register_env

    register_env("cart", lambda config: arrayferry.wrap(cart_pole(), "numpy"))
    config = PPOConfig().environment("cart").env_runners(num_envs_per_env_runner=1).debugging(seed=SEED)
    runner: Any = SingleAgentEnvRunner(config=config)
    episodes = runner.sample(num_episodes=3, random_actions=True)
    assert len(episodes) == 3
    bare = cart_pole()
    for index, episode in enumerate(episodes):
        obs, _ = bare.reset(seed=SEED if index == 0 else None)
        for step, action in enumerate(episode.get_actions()):
            np.testing.assert_array_equal(episode.get_observations(step), np.asarray(obs))
            obs, reward, terminated, truncated, _ = bare.step(int(action))
            assert episode.get_rewards(step) == float(reward)
        np.testing.assert_array_equal(episode.get_observations(-1), np.asarray(obs))
        assert (episode.is_terminated, episode.is_truncated) == (bool(terminated), bool(truncated))
    runner.stop()
