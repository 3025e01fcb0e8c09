"""The environment where Python runs: actions, infos, and episodes that end."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import arrayferry
from in_jit.helpers import BOX, Scripted, counting, rollout, vector

jax = pytest.importorskip("jax")
jnp = jax.numpy

pytestmark = pytest.mark.usefixtures("compiled_quickly", "way")


def test_actions_are_members_and_the_environment_s_own() -> None:
    env = Scripted(BOX, counting)
    reset, step = arrayferry.in_jit(env)
    rollout(reset, step, jax.random.key(0), jnp.arange(5, dtype=jnp.int32))
    assert env.actions == [0, 1, 2, 3, 4]
    assert {np.asarray(action).dtype for action in env.actions} == {np.dtype("float32")}

    class Dicts(Scripted):
        action_space = spaces.Dict(left=spaces.Discrete(3), right=spaces.Box(-1, 1, (2,), np.float32))

        def step(self, action: Any) -> Any:
            self.actions.append(action)
            return self._observe(), 1.0, False, False, {}

    env = Dicts(BOX, counting)
    reset, step = arrayferry.in_jit(env)
    rollout(reset, step, jax.random.key(0), {"left": jnp.arange(3), "right": jnp.ones((3, 2))})
    assert [action["left"] for action in env.actions] == [0, 1, 2]
    assert type(env.actions[0]["left"]) is np.int64
    env.actions[0]["right"][:] = 9  # its own, and writable
    assert env.actions[1]["right"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(3), True),
        (spaces.Box(-1, 1, (2,), np.float64), [0.5, 1.0]),
        (spaces.Box(0, 255, (2,), np.uint8), [1, 255]),
        (spaces.MultiBinary(2), [1, 0]),
        (spaces.MultiBinary(2), [True, False]),
        (spaces.MultiDiscrete([3, 3]), [2, 1]),
        (spaces.Tuple([spaces.Discrete(3), BOX]), (1, [0, 1])),
    ],
    ids=str,
)
def test_an_action_of_another_width_becomes_a_member(space: Any, action: Any) -> None:
    class Taking(Scripted):
        def step(self, action: Any) -> Any:
            self.actions.append(action)
            return self._observe(), 1.0, False, False, {}

    env = Taking(BOX, counting)
    env.action_space = space
    reset, step = arrayferry.in_jit(env)
    given = jax.tree.map(jnp.array, action, is_leaf=lambda one: isinstance(one, list))
    jax.block_until_ready(step(reset(jax.random.key(0))[0], given))
    assert space.contains(env.actions[0])


def test_actions_outlive_the_step() -> None:
    class Holding(Scripted):
        action_space = spaces.Box(-1e9, 1e9, (1000,), np.float32)

        def step(self, action: Any) -> Any:
            self.actions.append(action)
            return self._observe(), 1.0, False, False, {}

    env, actions = Holding(BOX, counting), np.arange(50_000, dtype=np.float32).reshape(50, 1000)
    rollout(*arrayferry.in_jit(env), jax.random.key(0), actions)
    assert np.array_equal(env.actions, actions)


def test_an_exception_of_the_environment_arrives_and_it_goes_on() -> None:
    env = Scripted(BOX, counting)
    reset, step = arrayferry.in_jit(env)
    state, _ = reset(jax.random.key(0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the arm is broken"):
        jax.block_until_ready(step(state, 7.0))
    state, (obs, *_) = step(state, 1.0)
    assert obs.tolist() == [1, 1]
    with pytest.raises(jax.errors.JaxRuntimeError, match="the arm is broken"):
        rollout(reset, step, jax.random.key(0), jnp.array([1.0, 7.0, 1.0]))
    _, (obs, *_) = rollout(reset, step, jax.random.key(0), jnp.ones(2))
    assert obs[:, 0].tolist() == [1, 2]


def test_a_step_whose_autoreset_fails_was_taken() -> None:
    class Failing(Scripted):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            if seed is None:
                raise ValueError("the door is locked")
            return super().reset(seed=seed)

    env = Failing(BOX, counting)
    reset, step = arrayferry.in_jit(env, autoreset=True)
    state, _ = reset(jax.random.key(0))
    state, _ = step(step(state, 1.0)[0], 1.0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="the door is locked"):
        jax.block_until_ready(step(state, 1.0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="this state was used already"):
        jax.block_until_ready(step(state, 1.0))
    assert len(env.actions) == 3
    _, (obs, *_) = step(reset(jax.random.key(0))[0], 1.0)
    assert obs.tolist() == [1, 1]


@pytest.mark.parametrize("info", [("count",), {"count": 0}], ids=["name", "example"])
def test_infos_by_name_and_by_example(info: Any) -> None:
    reset, step = arrayferry.in_jit(Scripted(BOX, counting), info=info)
    _, values = rollout(reset, step, jax.random.key(0), jnp.ones(3))
    assert values[-1]["count"].tolist() == [1, 2, 3]
    assert values[-1]["count"].dtype == np.int32


def test_infos_are_zeros_where_there_are_none() -> None:
    class Sometimes(Scripted):
        def step(self, action: Any) -> Any:
            *rest, _ = super().step(action)
            return (*rest, {"episode": {"r": 5.0, "l": self.count}} if self.count == 2 else {})

    reset, step = arrayferry.in_jit(Sometimes(BOX, counting), info={"episode": {"r": 0.0, "l": 0}})
    _, values = rollout(reset, step, jax.random.key(0), jnp.ones(3))
    assert values[-1]["episode"]["r"].tolist() == [0, 5, 0]
    assert values[-1]["episode"]["l"].tolist() == [0, 2, 0]


def test_the_first_step_leaves_the_action_space_as_it_was() -> None:
    env = Scripted(BOX, counting)
    env.action_space = spaces.Discrete(1000, seed=5)
    arrayferry.in_jit(env, info="count")
    assert env.action_space.sample() == spaces.Discrete(1000, seed=5).sample()


@pytest.mark.parametrize("info", [("final_obs",), {"final_obs": counting(0)}], ids=["name", "example"])
def test_the_final_observation_of_a_single_environment(info: Any) -> None:
    reset, step = arrayferry.in_jit(Scripted(BOX, counting), autoreset=True, info=info)
    _, (obs, _, terminated, _, info) = rollout(reset, step, jax.random.key(0), jnp.ones(4))
    assert obs[:, 0].tolist() == [1, 2, 0, 1]
    assert terminated.tolist() == [False, False, True, False]
    assert info["final_obs"][:, 0].tolist() == [0, 0, 3, 0]


@pytest.mark.parametrize("info", ["final_obs", {"final_obs": None}], ids=["name", "example"])
def test_a_final_observation_that_there_never_is_is_refused(info: Any) -> None:
    with pytest.raises(arrayferry.FerryError, match=r"info: there is no final_obs[\s\S]*SAME_STEP"):
        arrayferry.in_jit(vector(2, AutoresetMode.NEXT_STEP), info=info)
    with pytest.raises(arrayferry.FerryError, match=r"info: there is no final_obs[\s\S]*autoreset=True"):
        arrayferry.in_jit(Scripted(BOX, counting), info=info)


def test_a_vector_environment_that_nobody_resets_is_refused() -> None:
    with pytest.raises(arrayferry.FerryError, match=r"SyncVectorEnv does not reset[\s\S]*SAME_STEP"):
        arrayferry.in_jit(vector(2, AutoresetMode.DISABLED))


def test_an_unknown_info_is_refused() -> None:
    for autoreset in (False, True):
        with pytest.raises(arrayferry.FerryError, match="no info 'lives'") as caught:
            arrayferry.in_jit(Scripted(BOX, counting), info=("lives",), autoreset=autoreset)
        assert re.search(r"give an example of it, .*; there are: .*count", caught.value.hint)
        assert ("final_obs" in caught.value.hint) == autoreset
    with pytest.raises(arrayferry.FerryError) as caught:
        arrayferry.in_jit(gym.make("CartPole-v1"), info=("lives",))
    assert caught.value.hint == 'give an example of it, info={"lives": ...}'


def test_one_info_by_its_name() -> None:
    reset, step = arrayferry.in_jit(Scripted(BOX, counting), info="count")
    assert step(reset(jax.random.key(0))[0], 1.0)[1][-1]["count"] == 1


def test_autoreset_is_applied_or_refused_in_vectors() -> None:
    with pytest.raises(arrayferry.FerryError, match=r"autoreset=True, but[\s\S]*SAME_STEP") as caught:
        arrayferry.in_jit(vector(2, AutoresetMode.NEXT_STEP), autoreset=True)
    assert "leave autoreset out" in caught.value.hint
    envs = vector(2, AutoresetMode.SAME_STEP, lambda: Scripted(BOX, counting))
    reset, step = arrayferry.in_jit(envs, autoreset=True)
    _, (obs, _, terminated, *_) = rollout(reset, step, jax.random.key(0), jnp.ones((4, 2)))
    assert obs[:, 0, 0].tolist() == [1, 2, 0, 1]
    assert terminated[:, 0].tolist() == [False, False, True, False]
