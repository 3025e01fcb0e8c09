"""Wrappers record their arguments: a stack can be built again from its spec, also through JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

import arrayferry
from arrayferry import wrappers
from helpers.compare import assert_array, assert_crossed


def stack_of(env: gym.Env[Any, Any]) -> list[Any]:
    """The classes of a stack and what each was built with, from the outside in."""
    found = []
    while isinstance(env, gym.Wrapper):
        found.append((type(env), dict(getattr(env, "_saved_kwargs", {}))))
        env = env.env
    return found


def same_episode(one: gym.Env[Any, Any], other: gym.Env[Any, Any], target: str) -> None:
    first, _ = one.reset(seed=4)
    second, _ = other.reset(seed=4)
    assert type(first) is type(second)
    assert_array(second, first, target)
    for action in (1, 0, 1):
        given = arrayferry.convert(np.array(action), target)
        mine, theirs = one.step(given), other.step(given)
        assert [type(item) for item in mine] == [type(item) for item in theirs]
        assert_array(theirs[0], mine[0], target)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"copy": True},
    {"dtypes": {"float32": "float64"}},
    {"spaces": "target", "scalars": "target"},
    {"env_xp": "numpy"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("through_json", [False, True], ids=["spec", "json"])
def test_the_stack_is_built_again(options: dict[str, Any], through_json: bool, target: str) -> None:
    env = arrayferry.wrap(gym.wrappers.TimeAwareObservation(gym.make("CartPole-v1")), target, **options)
    assert env.spec is not None
    spec = EnvSpec.from_json(env.spec.to_json()) if through_json else env.spec
    again = gym.make(spec)
    assert stack_of(again) == stack_of(env)
    assert again.spec == env.spec
    same_episode(env, again, target)


PAIRS: list[Callable[[Any], Any]] = [
    lambda env: wrappers.NumpyToTorch(env),
    lambda env: wrappers.NumpyToTorch(env, device="cpu"),
    lambda env: wrappers.NumpyToTorch(env, "cpu", scalars="target"),
    lambda env: wrappers.NumpyToJax(env, copy=True),
    lambda env: wrappers.TorchToNumpy(wrappers.NumpyToTorch(env)),
    lambda env: wrappers.JaxToTorch(wrappers.NumpyToJax(env)),
    lambda env: wrappers.ArrayConversion(env, np, "torch"),
    lambda env: wrappers.ArrayConversion(env, env_xp="numpy", target_xp="torch", target_device="cpu"),
    lambda env: arrayferry.wrap(arrayferry.wrap(env, "jax"), "torch"),
]


@pytest.mark.parametrize("make", PAIRS, ids=range(len(PAIRS)))
def test_named_pairs_and_nested_wrappers(make: Callable[[Any], Any]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    env = make(gym.make("CartPole-v1"))
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert stack_of(again) == stack_of(env)
    target = {"Tensor": "torch", "ArrayImpl": "jax", "ndarray": "numpy"}[type(env.reset()[0]).__name__]
    same_episode(env, again, target)


def test_modules_devices_and_dtypes_are_recorded_by_name() -> None:
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    import jax

    for env, device in (
        (
            arrayferry.wrap(
                gym.make("CartPole-v1"), torch, torch.device("cpu"), dtypes={np.float64: torch.float32}
            ),
            "cpu",
        ),
        (
            wrappers.NumpyToTorch(
                gym.make("CartPole-v1"), torch.device("cpu"), dtypes={np.float64: torch.float32}
            ),
            "cpu",
        ),
        (wrappers.ArrayConversion(gym.make("CartPole-v1"), np, jnp, None, jax.devices("cpu")[0]), "cpu:0"),
        (wrappers.NumpyToJax(gym.make("CartPole-v1"), jax.devices("cpu")[0]), "cpu:0"),
    ):
        text = env.spec.to_json()
        kwargs = json.loads(text)["additional_wrappers"][-1]["kwargs"]
        assert kwargs.get("target_device", kwargs.get("device")) == device
        assert kwargs.get("dtypes") in (None, {"float64": "float32"})
        again = gym.make(EnvSpec.from_json(text))
        assert str(again.reset()[0].device) == str(env.reset()[0].device)


def test_additional_wrappers() -> None:
    torch = pytest.importorskip("torch")
    ours = wrappers.ArrayConversion.wrapper_spec(env_xp="numpy", target_xp="torch")
    env = gym.make(dataclasses.replace(gym.spec("CartPole-v1"), additional_wrappers=(ours,)))
    assert type(env) is wrappers.ArrayConversion
    assert isinstance(env.reset(seed=1)[0], torch.Tensor)
    both = (
        wrappers.NumpyToTorch.wrapper_spec(device="cpu", scalars="target"),
        gym.wrappers.TimeLimit.wrapper_spec(max_episode_steps=2),
    )
    env = gym.make(dataclasses.replace(gym.spec("CartPole-v1"), additional_wrappers=both))
    assert isinstance(env.env, wrappers.NumpyToTorch)
    env.reset(seed=1)
    results = [env.step(torch.tensor(1)) for _ in range(2)]
    assert [bool(result[3]) for result in results] == [False, True]
    assert isinstance(results[0][1], torch.Tensor)


def test_a_wrapper_is_found_by_the_name_in_its_spec() -> None:
    """The entry point must be importable as it stands."""
    pytest.importorskip("torch")
    for env in (
        arrayferry.wrap(gym.make("CartPole-v1"), "torch"),
        wrappers.NumpyToTorch(gym.make("CartPole-v1")),
    ):
        assert env.spec is not None
        entry = env.spec.additional_wrappers[-1].entry_point
        module, _, name = entry.partition(":")
        assert module.startswith("arrayferry.wrappers")
        assert getattr(__import__(module, fromlist=[name]), name) is type(env)


def test_an_environment_without_spec_has_none(target: str) -> None:
    from helpers.envs import Counter

    assert arrayferry.wrap(Counter(), target).spec is None


def test_the_spec_of_a_vector_environment(target: str) -> None:
    """Gymnasium does not rebuild vector wrappers; what it knows must still be there."""
    bare = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    envs = arrayferry.wrap(bare, target, dense_final=True)
    assert envs.spec == bare.spec
    assert json.loads(envs.spec.to_json())["id"] == "CartPole-v1"
    again = arrayferry.wrap(gym.make_vec(envs.spec), target)
    assert_crossed(again.reset(seed=2), envs.reset(seed=2), target)
    recorded = envs._saved_kwargs
    json.dumps(recorded)
    rebuilt = wrappers.vector.ArrayConversion(gym.make_vec(envs.spec), **recorded)
    assert rebuilt._saved_kwargs == recorded
    assert recorded["dense_final"] is True
    assert_crossed(rebuilt.reset(seed=2), bare.reset(seed=2), target)


def test_make_vec_with_a_wrapper_in_each_environment() -> None:
    pytest.importorskip("torch")
    envs = gym.make_vec(
        "CartPole-v1",
        num_envs=2,
        vectorization_mode="sync",
        wrappers=[lambda env: wrappers.TorchToNumpy(wrappers.NumpyToTorch(env))],
    )
    bare = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    assert_crossed(envs.reset(seed=2), bare.reset(seed=2), "numpy")
    assert_crossed(envs.step(np.array([0, 1])), bare.step(np.array([0, 1])), "numpy")
