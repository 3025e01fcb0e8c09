"""rsl_rl sees what the bare environment returns, as TensorDicts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.learners import rsl_rl_vec_env

pytest.importorskip("rsl_rl")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.learners
COUNT = 3


def swings(mode: AutoresetMode = AutoresetMode.SAME_STEP) -> Any:
    limits = 4, 5, 7  # so that episodes end, and not all at once
    return SyncVectorEnv(
        [lambda n=n: gym.make("Pendulum-v1", max_episode_steps=n) for n in limits], autoreset_mode=mode
    )


@pytest.mark.parametrize("framework", ["numpy", "jax"])
def test_steps_equal_the_bare_ones(framework: str) -> None:
    pytest.importorskip(framework)
    env = rsl_rl_vec_env(arrayferry.wrap(swings(), framework), seed=5)
    bare = swings()
    wanted, _ = bare.reset(seed=5)
    lengths = np.zeros(COUNT, int)
    for _ in range(20):
        obs = env.get_observations()
        assert obs.batch_size == (COUNT,)
        np.testing.assert_array_equal(obs["observation"], wanted)
        assert env.episode_length_buf.tolist() == lengths.tolist()
        action = bare.action_space.sample()
        wanted, reward, terminated, truncated, _ = bare.step(action)
        with torch.inference_mode():
            seen, rewards, dones, extras = env.step(torch.from_numpy(action))
        assert seen is env.get_observations()
        assert rewards.dtype == torch.float32
        np.testing.assert_array_equal(rewards, reward.astype(np.float32))
        np.testing.assert_array_equal(dones, terminated | truncated)
        np.testing.assert_array_equal(extras["time_outs"], truncated)
        lengths = (lengths + 1) * ~truncated
    assert (env.num_envs, env.num_actions) == (COUNT, 1)
    env.close()


def test_what_rsl_rl_cannot_do_is_refused() -> None:
    with pytest.raises(arrayferry.FerryError, match="rsl_rl takes "):
        rsl_rl_vec_env(swings(AutoresetMode.NEXT_STEP))
    carts = SyncVectorEnv([lambda: gym.make("CartPole-v1")], autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(arrayferry.FerryError, match="actions are real numbers"):
        rsl_rl_vec_env(carts)


def test_the_longest_episode() -> None:
    same = {"autoreset_mode": AutoresetMode.SAME_STEP}
    made = gym.make_vec("Pendulum-v1", COUNT, vectorization_mode="sync", vector_kwargs=same)
    assert rsl_rl_vec_env(made).max_episode_length == 200
    pendulum = pytest.importorskip("gymnasium.envs.phys2d.pendulum").PendulumFunctional()
    limited = rsl_rl_vec_env(arrayferry.envs.as_gymnasium(pendulum, COUNT, max_episode_steps=6))
    assert limited.max_episode_length == 6
    endless = rsl_rl_vec_env(arrayferry.envs.as_gymnasium(pendulum, COUNT))
    drawn = torch.randint_like(endless.episode_length_buf, high=int(endless.max_episode_length))
    assert drawn.shape == (COUNT,)  # as its runner does it, with init_at_random_ep_len


def test_statistics_are_of_the_episodes_that_are_over() -> None:
    env = rsl_rl_vec_env(arrayferry.wrappers.vector.RecordEpisodeStatistics(swings()), seed=5)
    total, lengths = torch.zeros(COUNT), []
    for _ in range(8):
        _, reward, done, extras = env.step(torch.zeros(COUNT, 1))
        total += reward
        if done.any():
            torch.testing.assert_close(extras["episode"]["r"].float(), total[done])
            lengths.append(extras["episode"]["l"].tolist())
            total[done] = 0
        else:
            assert "episode" not in extras
    assert lengths == [[4], [5], [7], [4]]
