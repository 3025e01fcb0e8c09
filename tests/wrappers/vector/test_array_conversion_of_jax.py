"""Gymnasium's own vector environments in JAX, which are not many single ones, as they are.

`wrap` refuses them, because they lose steps: see tests/envs.
"""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from arrayferry import wrappers
from helpers.compare import assert_array, assert_crossed, seen

jax = pytest.importorskip("jax")
pytest.importorskip("flax", reason="Gymnasium's JAX environments are written with it")


@pytest.fixture(scope="module", params=["phys2d/CartPole-v1", "phys2d/Pendulum-v0"])
def twins(request: pytest.FixtureRequest) -> Any:
    """The same environment twice, made once: JAX compiles for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is missing AutoresetMode metadata")
        return [
            gym.make_vec(request.param, num_envs=3, vectorization_mode="vector_entry_point") for _ in range(2)
        ]


def test_equal_to_the_bare_environment(twins: Any, target: str) -> None:
    bare, env = twins
    wrapped = wrappers.vector.ArrayConversion(env, None, target)
    assert_crossed(wrapped.reset(seed=5), bare.reset(seed=5), target)
    bare.action_space.seed(5)
    for _ in range(4):
        action = bare.action_space.sample()
        want = bare.step(jax.numpy.asarray(action))
        got = wrapped.step(arrayferry.convert(action, target))
        assert_crossed(got, want, target)


def test_actions_are_jax_arrays_of_the_space_s_dtype(twins: Any, target: str) -> None:
    env = twins[1]
    taken: list[Any] = []
    spied = gym.vector.VectorWrapper(env)
    spied.step = lambda actions: taken.append(actions) or env.step(actions)  # type: ignore[method-assign]
    wrapped = wrappers.vector.ArrayConversion(spied, None, target)
    wrapped.reset(seed=1)
    sample = env.action_space.sample()
    wrapped.step(arrayferry.convert(sample, target))
    assert isinstance(taken[0], jax.Array)
    assert taken[0].shape == sample.shape
    assert taken[0].dtype == jax.numpy.asarray(sample).dtype
    assert seen(taken[0]).tolist() == sample.tolist()


def test_the_named_pair(twins: Any) -> None:
    torch = pytest.importorskip("torch")
    envs = wrappers.vector.JaxToTorch(twins[1])
    obs, _ = envs.reset(seed=2)
    results = envs.step(torch.as_tensor(envs.action_space.sample()))
    assert all(isinstance(item, torch.Tensor) for item in (obs, *results[:4]))
    assert results[2].dtype == torch.bool
    envs = wrappers.vector.JaxToNumpy(twins[1])
    assert_array(envs.reset(seed=2)[0], obs, "numpy")


def test_an_observation_of_an_immutable_array_is_the_agent_s_to_write(twins: Any) -> None:
    torch = pytest.importorskip("torch")
    envs = wrappers.vector.ArrayConversion(twins[1], None, "torch")
    obs, _ = envs.reset(seed=3)
    state = np.array(twins[1].state)
    obs += 1000
    assert np.array_equal(np.asarray(twins[1].state), state)
    frames = wrappers.vector.ArrayConversion(twins[1], None, "numpy").reset(seed=3)[0]
    frames += 1000
    assert isinstance(obs, torch.Tensor)
    assert np.array_equal(np.asarray(twins[1].state), state)


def test_spaces_of_the_target(twins: Any, target: str) -> None:
    envs = wrappers.vector.ArrayConversion(twins[1], None, target, spaces="target")
    obs, _ = envs.reset(seed=4)
    assert envs.observation_space.contains(obs)
    action = envs.action_space.sample()
    assert action in envs.action_space
    results = envs.step(action)
    assert results[0] in envs.observation_space
