"""Environments that misbehave: a clear error or the right conversion, and the next reset works."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import arrayferry
from helpers.compare import assert_array, assert_crossed
from helpers.envs import Scripted

OBSERVATION = np.arange(3, dtype=np.float32)
GOOD = (OBSERVATION, 1.0, False, False, {})


class Trouble(Exception):
    """The environment's own."""


def wrapped(target: str, *steps: Any, **options: Any) -> Any:
    env = arrayferry.wrap(Scripted(*steps), target, **options)
    env.reset()
    return env


def action(target: str) -> Any:
    return arrayferry.convert(np.array(1), target)


def assert_recovers(env: Any, target: str) -> None:
    assert_array(env.reset()[0], np.zeros(3, np.float32), target)
    assert_array(env.step(action(target))[0], OBSERVATION, target)


def test_an_error_in_step_is_the_environment_s_own(target: str) -> None:
    trouble = Trouble("broken")
    env = wrapped(target, trouble, GOOD)
    with pytest.raises(Trouble) as caught:
        env.step(action(target))
    assert caught.value is trouble
    assert_recovers(env, target)


@pytest.mark.parametrize("options", [{}, {"scalars": "target"}], ids=str)
@pytest.mark.parametrize(
    "result",
    [
        (OBSERVATION, 1.0, False, {}),
        (OBSERVATION, 1.0, False, False, {}, "more"),
        (OBSERVATION,),
        (),
        None,
        7,
    ],
    ids=["four", "six", "one", "none", "None", "number"],
)
def test_a_step_that_does_not_return_five_things(result: Any, options: dict[str, Any]) -> None:
    env = wrapped("numpy", result, GOOD, **options)
    with pytest.raises((TypeError, ValueError), match="step"):
        env.step(1)
    assert_array(env.reset()[0], np.zeros(3, np.float32), "numpy")


def test_a_vector_step_that_does_not_return_five_things() -> None:
    for dense in (False, True):
        envs = SyncVectorEnv([Scripted, Scripted])
        envs.step = lambda actions: (np.zeros((2, 3)), np.zeros(2), np.zeros(2, bool), {})  # type: ignore[method-assign]
        env = arrayferry.wrap(envs, "numpy", dense_final=dense)
        env.reset()
        with pytest.raises((TypeError, ValueError), match="step"):
            env.step(np.array([1, 1]))


@pytest.mark.parametrize(
    "result",
    [
        OBSERVATION,
        np.zeros(2),
        {"a": OBSERVATION, "b": OBSERVATION},
        (OBSERVATION, {}, {}),
        (OBSERVATION,),
        None,
    ],
    ids=["array", "array_of_two", "dict_of_two", "three", "one", "None"],
)
def test_a_reset_that_does_not_return_two_things(result: Any) -> None:
    """As of old, when `reset` gave the observation alone: two numbers are not an observation and an info."""
    target = "numpy"
    base = Scripted(GOOD)
    env = arrayferry.wrap(base, target)
    base.reset = lambda **kwargs: result  # type: ignore[method-assign]
    with pytest.raises((TypeError, ValueError), match="reset"):
        env.reset()
    del base.reset  # type: ignore[method-assign]
    assert_recovers(env, target)


@pytest.mark.parametrize(
    "info", [None, [np.arange(2)], np.arange(3), "text", (1, {"a": np.ones(2)})], ids=str
)
def test_an_info_that_is_not_a_dict_is_converted_as_it_is(info: Any, target: str) -> None:
    env = wrapped(target, (OBSERVATION, 1.0, False, False, info), GOOD)
    assert_crossed(env.step(action(target))[4], info, target, "info")
    assert_recovers(env, target)


@pytest.mark.parametrize("dense", [False, True])
def test_an_info_of_a_vector_environment_that_is_not_a_dict(dense: bool) -> None:
    flags = np.zeros(2, bool)
    envs = SyncVectorEnv([Scripted, Scripted])
    envs.step = lambda actions: (np.zeros((2, 3)), np.zeros(2), flags, flags, ["text"])  # type: ignore[method-assign]
    env = arrayferry.wrap(envs, "numpy", dense_final=dense)
    env.reset()
    assert env.step(np.array([1, 1]))[4] == ["text"]


def test_an_observation_that_changes_its_form_in_mid_episode(target: str) -> None:
    forms = [
        OBSERVATION,
        np.arange(4, dtype=np.float32),  # another shape
        np.arange(3, dtype=np.int16),  # another dtype
        np.arange(6, dtype=np.float32).reshape(2, 3),
        {"a": OBSERVATION, "b": (np.float32(1), "text")},  # another structure
        [OBSERVATION, {"deep": np.ones((2, 2), np.uint8)}],
        "text",
        None,
        5,
        np.bool_(True),
    ]
    env = wrapped(target, *((form, 1.0, False, False, {"same": form}) for form in forms), GOOD)
    for form in forms:
        got = env.step(action(target))
        assert_crossed(got[0], form, target, "obs")
        assert_crossed(got[4], {"same": form}, target, "info")
    assert_recovers(env, target)


def test_arrays_of_two_frameworks(target: str) -> None:
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    obs = {"torch": torch.arange(3.0), "jax": jnp.arange(3.0), "numpy": OBSERVATION}
    env = wrapped(target, (obs, torch.tensor(2.0), jnp.array(True), np.False_, {"x": jnp.ones(2)}), GOOD)
    got = env.step(action(target))
    for array in got[0].values():
        assert_array(array, OBSERVATION, target)
    assert got[1:4] == (2.0, True, False)
    assert_array(got[4]["x"], np.ones(2, np.float32), target)
    assert_recovers(env, target)


def test_a_leaf_that_cannot_cross_is_named_and_the_wrapper_goes_on(target: str) -> None:
    torch = pytest.importorskip("torch")
    bad = {"camera": [OBSERVATION, torch.zeros(3, device="meta")]}
    env = wrapped(target, (bad, 1.0, False, False, {}), GOOD)
    with pytest.raises(arrayferry.FerryError, match=r'obs\["camera"\]\[1\]'):
        env.step(action(target))
    assert_recovers(env, target)


def test_an_info_that_contains_itself(target: str) -> None:
    info: dict[str, Any] = {"a": np.ones(2)}
    info["self"] = info
    env = wrapped(target, (OBSERVATION, 1.0, False, False, info), GOOD)
    with pytest.raises(arrayferry.errors.CircularError):
        env.step(action(target))
    assert_recovers(env, target)


@pytest.mark.parametrize("reward", [{"a": 1.0}, {"a": 2, "b": None}, [1.0, [2.5]]], ids=str)
def test_a_reward_that_is_a_container_is_converted_as_one(reward: Any, target: str) -> None:
    env = wrapped(target, (OBSERVATION, reward, False, False, {}), GOOD)
    assert_crossed(env.step(action(target))[1], reward, target, "reward")
    assert_recovers(env, target)


@pytest.mark.parametrize("which", ["terminated", "truncated"])
def test_a_done_that_is_neither_true_nor_false_says_which(which: str) -> None:
    dones = {"terminated": False, "truncated": False, which: np.array([True, False])}
    env = wrapped("numpy", (OBSERVATION, 1.0, *dones.values(), {}), GOOD)
    with pytest.raises((TypeError, ValueError), match=which):
        env.step(1)
    assert_recovers(env, "numpy")
