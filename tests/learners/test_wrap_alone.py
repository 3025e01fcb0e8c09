"""Learners that need no more than the line `arrayferry.wrap`: what they see equals the bare environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import arrayferry
from learners.bare import COUNT, actions, cart_pole, cart_poles, trajectory

pytest.importorskip("flax")
pytestmark = [
    pytest.mark.learners,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]
SEED, STEPS = 3, 30


def assert_equal(got: list[Any], wanted: list[Any]) -> None:
    assert any(np.any(step[2]) for step in wanted[1:]), "no episode has ended"
    for one, other in zip(got, wanted, strict=True):
        for part, bare in zip(one, other, strict=True):
            np.testing.assert_array_equal(np.reshape(part, np.shape(bare)), bare)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_skrl_on_an_environment_of_jax(framework: str) -> None:
    wrappers = pytest.importorskip(f"skrl.envs.wrappers.{framework}")
    env = wrappers.wrap_env(arrayferry.wrap(cart_pole(), "numpy"), verbose=False)
    env._seed = SEED  # skrl takes it from its configuration
    found: list[Any] = [(env.reset()[0],)]
    for move in arrayferry.convert(actions(STEPS), framework):
        obs, reward, terminated, truncated, _ = env.step(move.reshape(1, 1))
        found.append((obs, reward, terminated, truncated))
        if bool(terminated.any()) or bool(truncated.any()):
            env.reset()
    assert arrayferry.convert(obs, "numpy").dtype == np.float32
    assert_equal(arrayferry.convert(found, "numpy"), trajectory(cart_pole(), actions(STEPS), SEED))


def test_skrl_cannot_do_that_by_itself() -> None:
    wrappers = pytest.importorskip("skrl.envs.wrappers.torch")
    with pytest.raises(ValueError, match="Unsupported type"):
        wrappers.wrap_env(cart_pole(), verbose=False).reset()


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_skrl_on_a_vector(framework: str) -> None:
    wrappers = pytest.importorskip(f"skrl.envs.wrappers.{framework}")
    inside = arrayferry.wrap(cart_poles(), "jax")  # a vector of JAX
    env = wrappers.wrap_env(arrayferry.wrap(inside, "numpy"), verbose=False)
    env._seed = SEED
    found: list[Any] = [(env.reset()[0],)]
    bare = cart_poles()
    wanted: list[Any] = [(bare.reset(seed=SEED)[0],)]
    for moves in actions(STEPS, COUNT):
        found.append(env.step(arrayferry.convert(moves[:, None], framework))[:4])
        wanted.append(bare.step(moves)[:4])
    assert_equal(arrayferry.convert(found, "numpy"), wanted)


def test_tianshou_on_environments_of_jax() -> None:
    venvs = pytest.importorskip("tianshou.env")
    data = pytest.importorskip("tianshou.data")
    envs = venvs.DummyVectorEnv([lambda: arrayferry.wrap(cart_pole(), "numpy")] * 2)
    moves = actions(STEPS)
    first, _ = envs.reset(seed=SEED)
    found: list[Any] = [(first[1],)]
    buffer = data.VectorReplayBuffer(100, 2)
    for move in moves:
        obs, *rest, infos = envs.step(np.array([move, move]))
        found.append((obs[1], *(part[1] for part in rest)))
        batch = data.Batch(
            obs=obs, act=np.array([move, move]), rew=rest[0], terminated=rest[1], truncated=rest[2]
        )
        buffer.add(data.Batch(batch, obs_next=obs, done=rest[1] | rest[2], info=infos))
        if (rest[1] | rest[2]).any():  # both are the same
            envs.reset()
    assert buffer.obs.dtype == np.float32
    assert_equal(found, trajectory(cart_pole(), moves, SEED))


def test_sbx_collects_what_the_bare_environments_give() -> None:
    sbx = pytest.importorskip("sbx")
    learners = pytest.importorskip("arrayferry.learners")
    steps = 16
    model = sbx.PPO("MlpPolicy", learners.sb3_vec_env(cart_poles()), n_steps=steps, batch_size=16, seed=SEED)
    model.learn(steps * COUNT)
    buffer, bare = model.rollout_buffer, cart_poles()
    by_env = (COUNT, steps, -1)  # as the buffer has them after the updates
    observations, actions = buffer.observations.reshape(by_env), buffer.actions.reshape(by_env)
    obs, _ = bare.reset(seed=SEED)
    for index in range(steps):
        np.testing.assert_array_equal(observations[:, index], obs)
        obs, reward, *_ = bare.step(actions[:, index, 0].astype(np.int64))
        np.testing.assert_array_equal(buffer.rewards[index], reward)
