"""`in_jit`: a rollout in compiled code equals the Python loop, and whatever cannot be compiled is refused."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import arrayferry
from arrayferry.envs import EnvAdapter, adapters, register_environment
from in_jit.helpers import BOX, Halves, Scripted, counting, rollout, seed_of, vector

jax = pytest.importorskip("jax")
jnp = jax.numpy

pytestmark = pytest.mark.usefixtures("compiled_quickly", "way")


def test_a_single_rollout_equals_the_loop() -> None:
    actions, key = np.random.default_rng(0).integers(0, 2, 200), jax.random.key(3)
    reset, step = arrayferry.in_jit(gym.make("CartPole-v1"), autoreset=True)
    first, (obs, reward, terminated, truncated, info) = rollout(reset, step, key, actions)

    env = gym.make("CartPole-v1")
    expected = env.reset(seed=seed_of(key))[0]
    assert np.array_equal(first, expected)
    for index, action in enumerate(actions):
        new, one, ended, cut, _ = env.step(action)
        if ended or cut:
            new, _ = env.reset()
        assert np.array_equal(obs[index], new)
        assert (reward[index], terminated[index], truncated[index]) == (one, ended, cut)
    assert terminated.sum() >= 3  # which seed the key makes is JAX's affair
    assert obs.dtype == reward.dtype == np.float32
    assert terminated.dtype == bool
    assert info == {}


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_a_vector_rollout_equals_the_loop(mode: AutoresetMode) -> None:
    actions, key = np.random.default_rng(0).integers(0, 2, (100, 3)), jax.random.key(5)
    names = ("final_obs",) if mode is AutoresetMode.SAME_STEP else ()
    first, values = rollout(*arrayferry.in_jit(vector(3, mode), info=names), key, actions)
    envs = vector(3, mode)
    assert np.array_equal(first, envs.reset(seed=seed_of(key))[0])
    for index, action in enumerate(actions):
        *expected, info = envs.step(action)
        for mine, theirs in zip(values, expected):
            assert np.array_equal(mine[index], theirs.astype(mine.dtype))
        for row in range(3 if names else 0):
            final = values[-1]["final_obs"][index]
            wanted = info["final_obs"][row] if "final_obs" in info else None
            assert np.array_equal(final[row], np.zeros(4) if wanted is None else wanted)
    assert values[2].sum() > 3


def test_outside_of_jit_and_in_loops_and_branches() -> None:
    reset, step = arrayferry.in_jit(Scripted(BOX, counting))
    state, obs = reset(jax.random.key(0))
    assert obs.tolist() == [0, 0]
    state, (obs, *_) = step(state, 0.5)
    assert obs.tolist() == [1, 1]

    def body(carry: Any) -> Any:
        state, _ = carry
        state, (obs, *_) = jax.lax.cond(obs_is_small(carry), step, step, state, jnp.float32(1))
        return state, obs

    def obs_is_small(carry: Any) -> Any:
        return carry[1][0] < 50

    state, obs = jax.jit(lambda s, o: jax.lax.while_loop(lambda c: c[1][0] < 10, body, (s, o)))(state, obs)
    assert obs.tolist() == [10, 10]


def test_an_environment_with_its_own_functions_for_compiled_code_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Pool(Halves):
        """It has a method `xla`, as in EnvPool."""

    monkeypatch.setattr(adapters, "_adapters", dict(adapters._adapters))
    register_environment(Pool, EnvAdapter("vector", xla="call env.xla()"))
    with pytest.raises(arrayferry.FerryError, match=r"Pool has its own functions[\s\S]*call env.xla\(\)"):
        arrayferry.in_jit(Pool())


def test_jax_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(arrayferry.errors.NotInstalledError, match="in_jit needs JAX") as caught:
        arrayferry.in_jit(gym.make("CartPole-v1"))
    assert caught.value.hint == "pip install jax"


def test_an_environment_written_in_jax() -> None:
    class InJax(Scripted):
        def _observe(self) -> Any:
            return jnp.full(2, self.count, jnp.float32)

    env = InJax(BOX)
    reset, step = arrayferry.in_jit(env)
    _, (obs, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(3))
    assert obs[:, 0].tolist() == [1, 2, 3]


def test_it_is_compiled_once() -> None:
    reset, step = arrayferry.in_jit(Scripted(BOX, counting))
    traced = []

    @jax.jit
    def run(key: Any, actions: Any) -> Any:
        traced.append(1)
        state, _ = reset(key)
        return jax.lax.scan(step, state, actions)[1][0]

    for seed in range(3):
        run(jax.random.key(seed), jnp.ones(4))
    assert len(traced) == 1
