"""Gymnasium's `FuncEnv`, and its vector environments, which lose steps by themselves."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import TransformReward

import arrayferry

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

from gymnasium.envs.phys2d.cartpole import CartPoleFunctional, CartPoleParams  # noqa: E402
from gymnasium.envs.tabular.blackjack import BlackjackFunctional  # noqa: E402

from arrayferry.envs import JaxVectorEnv, as_gymnasium  # noqa: E402


def test_steps_are_those_of_the_functions() -> None:
    env, functions = as_gymnasium(CartPoleFunctional()), CartPoleFunctional()
    obs, _ = env.reset(seed=5)
    key, reset_key = jax.random.split(jax.random.PRNGKey(5))
    state = functions.initial(reset_key)
    for t in range(1, 6):
        assert np.allclose(obs, state, atol=1e-6)
        state = functions.transition(state, t % 2, jax.random.fold_in(key, t + 1))
        obs, reward, terminated, truncated, _ = env.step(t % 2)
        assert (reward, terminated, truncated) == (1.0, False, False)


def test_parameters() -> None:
    pair = CartPoleFunctional(), CartPoleParams(x_init=0.0)
    assert not np.any(as_gymnasium(pair, 2).reset(seed=0)[0])


def test_tabular() -> None:
    envs = arrayferry.wrap(BlackjackFunctional(), "numpy", num_envs=4)
    envs.reset(seed=0)
    ends = sum(envs.step(np.zeros(4, int))[2].sum() for _ in range(3))
    assert ends == 12  # to stick ends the game


def test_no_step_is_lost_when_another_environment_is_reset() -> None:
    envs = gym.make_vec("phys2d/CartPole-v1", num_envs=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped = arrayferry.wrap(envs, "numpy")
    assert isinstance(wrapped.unwrapped, JaxVectorEnv)
    assert wrapped.spec.id == "phys2d/CartPole-v1"
    assert wrapped.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    before, _ = wrapped.reset(seed=0)
    over = np.zeros(8, bool)
    resets = 0
    for t in range(40):
        obs, reward, terminated, truncated, _ = wrapped.step(np.full(8, t % 3 == 0, int))
        resets += over.sum()
        if over.any():
            went_on = (obs != before).any(1)
            assert went_on.all()
        assert np.array_equal(reward == 0, over)
        before, over = obs, terminated | truncated
    assert resets > 8


@pytest.mark.filterwarnings("ignore:.*missing AutoresetMode metadata")  # Gymnasium of its own
def test_the_time_limit_is_kept() -> None:
    wrapped = arrayferry.wrap(gym.make_vec("phys2d/Pendulum-v0", num_envs=2), "numpy")
    wrapped.reset(seed=0)
    ends = [wrapped.step(np.zeros((2, 1), np.float32))[3].all() for _ in range(200)]
    assert [t for t, end in enumerate(ends, 1) if end] == [200]


def test_a_vector_inside_of_another_wrapper_is_warned_of() -> None:
    envs = TransformReward(gym.make_vec("phys2d/CartPole-v1", num_envs=2), lambda reward: reward)
    with pytest.warns(UserWarning, match="discards the steps of all others"):
        arrayferry.wrap(envs, "numpy")
    with pytest.raises(arrayferry.FerryError, match="num_envs=3, but phys2d/CartPole-v1 is made already"):
        arrayferry.wrap(gym.make_vec("phys2d/CartPole-v1", num_envs=2), "numpy", num_envs=3)


def test_render() -> None:
    pytest.importorskip("pygame")
    frames = as_gymnasium(CartPoleFunctional(), 2, render_mode="rgb_array")
    frames.reset(seed=0)
    assert [frame.shape for frame in frames.render()] == [(400, 600, 3)] * 2


def test_a_function_environment_on_numpy_says_what_is_wrong() -> None:
    class OnNumpy(CartPoleFunctional):
        def initial(self, rng, params=None):
            return np.random.default_rng(np.asarray(rng)).uniform(size=4)

    with pytest.raises(jax.errors.TracerArrayConversionError) as raised:
        as_gymnasium(OnNumpy())
    note = "".join(getattr(raised.value, "__notes__", [str(raised.value)]))
    assert "traced reset of OnNumpy: it must be pure JAX" in note


@pytest.mark.parametrize("module", [pickle, cloudpickle])
def test_a_vector_of_gymnasium_can_be_pickled(module: Any) -> None:
    wrapped = arrayferry.wrap(gym.make_vec("phys2d/CartPole-v1", num_envs=2), "numpy")
    wrapped.reset(seed=3)
    for other in pickle.loads(module.dumps(wrapped)), copy.deepcopy(wrapped):
        twin = copy.deepcopy(wrapped)
        assert np.array_equal(other.step([0, 1])[0], twin.step([0, 1])[0])
        assert other.spec.id == "phys2d/CartPole-v1"


def test_as_gymnasium_takes_what_wrap_takes() -> None:
    envs = gym.make_vec("phys2d/CartPole-v1", num_envs=2)
    assert isinstance(as_gymnasium(envs), JaxVectorEnv)
    with pytest.raises(
        arrayferry.FerryError, match="max_episode_steps=3, but phys2d/CartPole-v1 is made already"
    ):
        as_gymnasium(envs, max_episode_steps=3)
