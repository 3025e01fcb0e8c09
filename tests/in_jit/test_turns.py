"""The newest state is the only one that a step accepts, whoever changed the environment."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import arrayferry
from in_jit.helpers import BOX, Halves, Scripted, counting, played, vector

jax = pytest.importorskip("jax")
jnp = jax.numpy

pytestmark = pytest.mark.usefixtures("compiled_quickly", "way")


def test_a_state_is_used_once() -> None:
    env = Scripted(BOX, counting)
    reset, step = arrayferry.in_jit(env)
    old, _ = reset(jax.random.key(0))
    new, _ = step(old, 1.0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
        jax.block_until_ready(step(old, 1.0))
    assert len(env.actions) == 1
    newer, _ = step(new, 1.0)
    later, _ = reset(jax.random.key(0), newer)
    for used in (newer, old):
        with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
            jax.block_until_ready(step(used, 1.0))
        with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
            jax.block_until_ready(reset(jax.random.key(0), used))
    jax.block_until_ready(step(later, 1.0))
    assert len(env.actions) == 3


def test_a_state_is_used_once_in_one_compiled_function() -> None:
    env = Scripted(BOX, counting)
    reset, step = arrayferry.in_jit(env)

    @jax.jit
    def twice(key: Any) -> Any:
        state, _ = reset(key)
        return step(state, 1.0), step(state, 1.0)

    with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
        jax.block_until_ready(twice(jax.random.key(0)))
    assert len(env.actions) == 1


def test_a_state_of_another_environment_is_refused() -> None:
    _, step = arrayferry.in_jit(Scripted(BOX, counting))
    other, _ = arrayferry.in_jit(Scripted(BOX, counting))[0](jax.random.key(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="this state belongs to another environment"):
        jax.block_until_ready(step(other, 1.0))


CHANGES: dict[str, Any] = {
    "reset": lambda env: env.reset(),
    "step": lambda env: env.step(np.float32(0)),
    "the environment inside": lambda env: env.unwrapped.step(np.float32(0)),
    "another wrapper's reset": lambda env: gym.wrappers.TimeLimit(env, 5).reset(),
    "another in_jit": lambda env: jax.block_until_ready(arrayferry.in_jit(env)[0](jax.random.key(1))),
    "another in_jit that looks for infos": lambda env: arrayferry.in_jit(env, info="count"),
    "in_jit through another wrapper": lambda env: jax.block_until_ready(
        arrayferry.in_jit(gym.wrappers.TimeLimit(env.unwrapped, 5))[0](jax.random.key(1))
    ),
    "a conversion": lambda env: arrayferry.wrap(env, "jax").reset(seed=1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_state_is_refused_whoever_changed_the_environment_since(change: Any) -> None:
    env = gym.wrappers.OrderEnforcing(Scripted(BOX, counting))
    reset, step = arrayferry.in_jit(env)
    state, _ = reset(jax.random.key(0))
    state, _ = played(step, state)
    change(env)
    taken = len(env.unwrapped.actions)
    for use in (lambda: step(state, 0.0), lambda: reset(jax.random.key(0), state)):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"was reset or stepped since[\s\S]*Hint: go on"):
            jax.block_until_ready(use())
    assert len(env.unwrapped.actions) == taken
    state, obs = reset(jax.random.key(0))
    assert obs.tolist() == [0, 0]
    assert played(step, state)[1][0].tolist() == [1, 1]


def test_rollouts_of_one_environment_do_not_mix() -> None:
    """Each of two `in_jit` starts over; the states of the other are no longer valid then."""
    env = Scripted(BOX, counting)
    (reset, step), (other_reset, other_step) = arrayferry.in_jit(env), arrayferry.in_jit(env)
    first, _ = reset(jax.random.key(0))
    second, _ = other_reset(jax.random.key(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the environment was reset or stepped since"):
        played(step, first)
    with pytest.raises(jax.errors.JaxRuntimeError, match="to another in_jit of this one"):
        played(step, second)
    assert played(other_step, second)[1][0].tolist() == [1, 1]


PARTS: dict[str, Any] = {
    "one of them": lambda envs: envs.envs[1].step(np.float32(0)),
    "one of them, inside": lambda envs: envs.envs[1].unwrapped.reset(),
    "one of them, by in_jit": lambda envs: jax.block_until_ready(
        arrayferry.in_jit(envs.envs[0])[0](jax.random.key(0))
    ),
    "call": lambda envs: envs.call("reset"),
    "all": lambda envs: envs.step(np.zeros(3, np.float32)),
}


@pytest.mark.parametrize("change", PARTS.values(), ids=PARTS)
def test_a_vector_s_state_is_refused_whoever_changed_one_of_its_environments(change: Any) -> None:
    envs = vector(3, AutoresetMode.SAME_STEP, lambda: gym.wrappers.OrderEnforcing(Scripted(BOX, counting)))
    reset, step = arrayferry.in_jit(envs)
    state, _ = reset(jax.random.key(0))
    change(envs)
    with pytest.raises(jax.errors.JaxRuntimeError, match="the environment was reset or stepped since"):
        played(step, state, 3)
    played(step, reset(jax.random.key(0))[0], 3)


def test_a_state_of_one_of_many_is_refused_once_all_were_stepped() -> None:
    envs = vector(2, AutoresetMode.SAME_STEP, lambda: Scripted(BOX, counting))
    reset, step = arrayferry.in_jit(envs.envs[0])
    reset_all, _ = arrayferry.in_jit(envs)
    state, _ = reset(jax.random.key(0))
    jax.block_until_ready(reset_all(jax.random.key(0)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the environment was reset or stepped since"):
        played(step, state)


@pytest.mark.parametrize("method", ["send", "step_async", "async_reset", "reset_async", "run_on"])
def test_half_a_step_is_a_change_too(method: str) -> None:
    envs = Halves()
    reset, step = arrayferry.in_jit(envs)
    state, _ = reset(jax.random.key(0))
    assert played(step, state, 2)[1][0][0].tolist() == [1, 1]
    state, _ = reset(jax.random.key(0))
    getattr(envs, method)(*[np.zeros(2, np.float32)] * ("reset" not in method))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the environment was reset or stepped since"):
        played(step, state, 2)


COPIES: dict[str, Any] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_is_another_environment(copied: Any) -> None:
    env = gym.make("CartPole-v1")
    reset, step = arrayferry.in_jit(env)
    state, _ = reset(jax.random.key(0))
    twin = copied(env)
    twin.reset(seed=1)
    twin.step(0)
    reset_twin, step_twin = arrayferry.in_jit(twin)
    other, _ = reset_twin(jax.random.key(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="this state belongs to another environment"):
        jax.block_until_ready(step_twin(state, 0))
    for function, newest in ((step, state), (step_twin, other)):
        jax.block_until_ready(function(newest, 0))


def test_a_step_that_was_taken_by_some_of_many_cannot_be_taken_again() -> None:
    class Broken(Scripted):
        def step(self, action: Any) -> Any:
            if action == 7:
                raise ValueError("the arm is broken")
            return super().step(action)

    envs = vector(2, AutoresetMode.SAME_STEP, lambda: Broken(BOX, counting))
    reset, step = arrayferry.in_jit(envs)
    for actions, is_reusable in (([7, 0], True), ([0, 7], False)):
        state, _ = reset(jax.random.key(0))
        with pytest.raises(jax.errors.JaxRuntimeError, match="the arm is broken"):
            jax.block_until_ready(step(state, jnp.array(actions, "float32")))
        if is_reusable:
            assert played(step, state, 2)[1][0][:, 0].tolist() == [1, 1]
        else:
            with pytest.raises(
                jax.errors.JaxRuntimeError, match="the environment was reset or stepped since"
            ):
                played(step, state, 2)


def test_a_reset_after_a_state_comes_after_its_steps() -> None:
    reset, step = arrayferry.in_jit(Scripted(BOX, counting))

    @jax.jit
    def run(key: Any) -> Any:
        state, _ = reset(key)
        state, (before, *_) = step(state, 1.0)
        state, first = reset(key, state)
        _, (after, *_) = step(state, 1.0)
        return before, first, after

    assert [obs[0] for obs in run(jax.random.key(0))] == [1, 0, 1]


@pytest.mark.parametrize("key", [0, 2**20, 0.5, np.int32(1), np.zeros((2, 2), np.uint32), None], ids=repr)
def test_what_is_no_key_is_refused(key: Any) -> None:
    reset, _ = arrayferry.in_jit(Scripted(BOX, counting))
    for is_compiled in (True, False):
        with jax.disable_jit(not is_compiled):
            with pytest.raises(arrayferry.FerryError, match=r"key: .* is not a key") as caught:
                reset(key)
            assert "jax.random.key(0)" in caught.value.hint


def test_keys_old_and_new() -> None:
    reset, _ = arrayferry.in_jit(Scripted(spaces.Discrete(2**30)))
    for key in (jax.random.key(3), jax.random.PRNGKey(3), jax.random.key(3, impl="rbg")):
        jax.block_until_ready(reset(key))
    with pytest.raises(arrayferry.FerryError, match="pass one key"):
        reset(jax.random.split(jax.random.key(0)))


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_the_environment_is_another_one(make: Any) -> None:
    env, other = gym.make("CartPole-v1").unwrapped, gym.make("CartPole-v1").unwrapped
    arrayferry.in_jit(env)
    env.reset(seed=0)
    other.reset(seed=0)
    twin = make(env)
    twin.reset(seed=1)
    twin.step(1)
    assert np.array_equal(env.step(0)[0], other.step(0)[0])  # the copy has not stepped the original
