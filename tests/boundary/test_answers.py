"""What comes out: observations and infos as the target's arrays, rewards as `float`, dones as `bool`."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from helpers.compare import assert_array, assert_crossed, held, seen
from helpers.envs import Counter, Recorder, Scripted

REWARDS = [1, 1.5, np.float32(1.5), np.float64(1.5), np.int64(2), np.array(1.5), np.array([1.5]), True]
OBSERVATION = np.arange(3, dtype=np.float32)


def stepped(result: Any, target: str, **options: Any) -> Any:
    env = arrayferry.wrap(Scripted(result), target, **options)
    env.reset()
    return env.step(arrayferry.convert(np.array(0), target))


@pytest.mark.parametrize("reward", REWARDS, ids=repr)
def test_a_reward_is_a_float(reward: Any, target: str) -> None:
    got = stepped((OBSERVATION, reward, False, False, {}), target)[1]
    assert type(got) is float
    assert got == float(np.asarray(reward).item())


@pytest.mark.parametrize("framework", ["torch", "jax.numpy"])
def test_a_reward_of_another_framework_is_a_float(framework: str, target: str) -> None:
    xp = pytest.importorskip(framework)
    result = (xp.zeros(3), xp.asarray(0.25), xp.asarray(True), xp.asarray(False), {})
    got = stepped(result, target)
    assert [type(item) for item in got[1:4]] == [float, bool, bool]
    assert got[1:4] == (0.25, True, False)


@pytest.mark.parametrize(
    "done", [True, False, np.True_, np.False_, 1, 0, np.array(True), np.array([False])], ids=repr
)
def test_dones_are_bools(done: Any, target: str) -> None:
    _, _, terminated, truncated, _ = stepped((OBSERVATION, 0.0, done, done, {}), target)
    assert type(terminated) is bool
    assert type(truncated) is bool
    assert terminated is truncated is bool(np.asarray(done).item())


def test_a_multi_objective_reward_is_the_target_s_array(target: str) -> None:
    reward = np.array([1.5, -2.0], np.float32)
    got = stepped((OBSERVATION, reward, False, False, {}), target)[1]
    assert_array(got, reward, target)
    reward[:] = 0
    assert seen(got).tolist() == [1.5, -2.0]


def test_scalars_on_request_as_the_target_s_arrays(target: str) -> None:
    for reward, done in ((1.5, True), (np.float32(1.5), np.True_), (np.array(1.5), np.array(True))):
        got = stepped((OBSERVATION, reward, done, not done, {}), target, scalars="target")
        assert_array(got[0], OBSERVATION, target)
        assert_crossed(got[1], reward, target)
        assert_array(got[2], np.bool_(done), target)
        assert_array(got[3], np.bool_(not done), target)


def test_scalars_are_on_the_device_too() -> None:
    torch = pytest.importorskip("torch")
    got = stepped((OBSERVATION, 1.0, False, False, {"a": 1}), "torch", scalars="target", device="cpu")
    assert [item.device.type for item in (*got[:4], got[4]["a"])] == ["cpu"] * 5
    assert all(isinstance(item, torch.Tensor) for item in got[:4])


def test_an_info_keeps_its_shape_and_its_words(target: str) -> None:
    def word() -> None: ...

    info = {
        "array": np.arange(4, dtype=np.int32),
        "number": 3,
        "float": 0.5,
        "yes": True,
        "none": None,
        "words": ["left", b"right", ("up",)],
        7: OrderedDict(nested=np.float32(2)),
        "TimeLimit.truncated": np.True_,
        "mixed": np.array(["a", None, np.ones(2, np.float32)], object),
    }
    got = stepped((OBSERVATION, 0.0, False, False, {**info, "function": word}), target)[4]
    assert got.pop("function") is word
    assert_crossed(got, info, target, "info")


def test_an_info_of_strings_is_not_text_about_a_generator(target: str) -> None:
    got = stepped((OBSERVATION, 0.0, False, False, {"mission": "go left"}), target)[4]
    assert got == {"mission": "go left"}


def test_the_environment_s_info_is_not_written_to(target: str) -> None:
    info = {"a": np.zeros(2), "b": {"c": [1, 2]}}
    got = stepped((OBSERVATION, 0.0, False, False, info), target)[4]
    assert got is not info
    assert isinstance(info["a"], np.ndarray)
    assert info["b"] == {"c": [1, 2]}


def test_dtypes_are_cast_on_the_way_out_only(target: str) -> None:
    env = Recorder()
    env.reset = lambda **kwargs: (np.array([0.1, 0.2, 0.3]), {"x": np.arange(2.0)})  # type: ignore[method-assign]
    wrapped = arrayferry.wrap(env, target, dtypes={"float64": "float32", "float32": "float64"})
    obs, info = wrapped.reset()
    assert seen(obs).dtype == seen(info["x"]).dtype == np.float32
    assert seen(wrapped.step(arrayferry.convert(np.ones(3, np.float32), target))[0]).dtype == held(
        "f8", target
    )
    assert env.actions[0].dtype == np.float32


def test_options_go_to_the_environment_s_framework(target: str) -> None:
    env = Recorder()
    where, deep, word = np.arange(3, dtype=np.int32), [1, 2.5], "text"
    options = {
        "where": arrayferry.convert(where, target),
        "n": 3,
        "x": 0.5,
        "on": True,
        "deep": deep,
        "w": word,
        "z": None,
    }
    arrayferry.wrap(env, target).reset(seed=11, options=options)
    seed, got = env.resets[0]
    assert seed == 11
    assert type(seed) is int
    assert list(got) == list(options)
    assert isinstance(got["where"], np.ndarray)
    assert got["where"].dtype == np.int32
    assert got["where"].tolist() == [0, 1, 2]
    del got["where"]
    # Python's numbers are anybody's: a range, an index or a key would not survive as an array.
    assert got == {"n": 3, "x": 0.5, "on": True, "deep": [1, 2.5], "w": "text", "z": None}
    assert [type(got[key]) for key in ("n", "x", "on")] == [int, float, bool]


@pytest.mark.parametrize("options", [None, {}])
def test_no_options_are_no_options(options: Any, target: str) -> None:
    env = Recorder()
    arrayferry.wrap(env, target).reset(options=options)
    assert env.resets == [(None, options)]


def test_options_of_a_jax_environment_are_jax_arrays(target: str) -> None:
    jnp = pytest.importorskip("jax.numpy")
    env = Recorder(xp=jnp)
    wrapped = arrayferry.wrap(env, target)
    wrapped.reset()
    wrapped.reset(options={"state": arrayferry.convert(np.ones(2, np.float32), target)})
    assert isinstance(env.resets[1][1]["state"], jnp.ndarray)


def test_the_user_s_options_stay_as_they_are(target: str) -> None:
    """SyncVectorEnv pops the mask out of the options that it is given."""
    envs = arrayferry.wrap(gym.vector.SyncVectorEnv([Counter, Counter]), target)
    options = {"reset_mask": arrayferry.convert(np.array([True, False]), target), "level": 2}
    envs.reset()
    envs.reset(options=options)
    assert list(options) == ["reset_mask", "level"]
