"""Environments of a kind that `wrap` does not take are refused with a hint that fits them.

The packages are not here: `tests/field` meets the real ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from helpers.envs import Counter


def of(module: str, name: str) -> Any:
    """An environment whose class derives from one of another package."""
    base = type(name, (), {"__module__": module})
    return type("Derived", (base,), {"__module__": "user.code"})()


REFUSED: dict[str, tuple[Any, str]] = {
    "SB3's VecEnv": (of("stable_baselines3.common.vec_env.base_vec_env", "VecEnv"), "make_vec_env(lambda:"),
    "TorchRL's EnvBase": (of("torchrl.envs.common", "EnvBase"), "torchrl.envs.GymWrapper("),
    "gym of old": (of("gym.core", "Env"), "shimmy.GymV26CompatibilityV0(env=env)"),
    "a spec": (gym.spec("CartPole-v1"), "gymnasium.make(spec)"),
    "a class": (Counter, "not the class: Counter(...)"),
    "a list": ([Counter(), Counter()], "SyncVectorEnv("),
    "a tuple": ((Counter(), Counter(), Counter()), "SyncVectorEnv("),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("call", [arrayferry.wrap, arrayferry.explain, arrayferry.check])
def test_the_hint_fits_what_it_is(call: Callable[..., Any], kind: str) -> None:
    env, hint = REFUSED[kind]
    with pytest.raises(arrayferry.errors.UnsupportedError, match="is not a Gymnasium environment") as caught:
        call(env, "numpy")
    assert hint in caught.value.hint


def test_an_id_is_for_explain_and_check() -> None:
    with pytest.raises(arrayferry.errors.UnsupportedError) as caught:
        arrayferry.wrap("CartPole-v1", "numpy")  # type: ignore[call-overload]
    assert "gymnasium.make('CartPole-v1')" in caught.value.hint
    with pytest.raises(arrayferry.errors.UnsupportedError) as caught:
        arrayferry.wrappers.NumpyToTorch("CartPole-v1")  # type: ignore[arg-type]
    assert caught.value.hint == "make it first, and pass gymnasium.make('CartPole-v1')"
    with pytest.raises(arrayferry.errors.UnsupportedError) as caught:
        arrayferry.wrap("torch", Counter())  # type: ignore[call-overload]
    assert caught.value.hint == 'the environment comes first: wrap(env, "torch")'
    assert arrayferry.explain("CartPole-v1", "numpy", steps=1).ok
    assert arrayferry.check("CartPole-v1", "numpy", steps=2).ok


@pytest.mark.parametrize(
    ("thing", "hint"),
    [
        (lambda: Counter(), "call it first"),
        ([lambda: Counter()] * 2, "make a vector of them"),
        (None, "gymnasium.make(...)"),
        (object(), "gymnasium.make(...)"),
    ],
)
def test_what_is_no_environment(thing: Any, hint: str) -> None:
    with pytest.raises(arrayferry.errors.UnsupportedError) as caught:
        arrayferry.wrap(thing, "numpy")
    assert caught.value.what.startswith(
        ("a function is not", "a list is not", "None is not", "an object is not")
    )
    assert hint in caught.value.hint


@pytest.mark.parametrize("value", [[np.zeros(2), 1.5], (np.zeros(2), {"gravity": 9.8}), {"a": None}, int])
def test_other_values_are_explained_as_values(value: Any) -> None:
    assert arrayferry.explain(value, "numpy").title == "a value to numpy"


def test_shimmy_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shimmy", None)
    for call in (arrayferry.wrap, arrayferry.explain, arrayferry.check):
        with pytest.raises(arrayferry.errors.NotInstalledError, match="Shimmy") as caught:
            call(of("dm_env._environment", "Environment"), "numpy")
        assert caught.value.hint == "pip install shimmy dm-env"


def test_num_envs_is_for_environments_written_in_jax() -> None:
    with pytest.raises(arrayferry.errors.UnsupportedError) as caught:
        arrayferry.wrap(gym.make("CartPole-v1"), "numpy", num_envs=4)
    assert caught.value.what == "num_envs=4, but CartPole-v1 is made already"
    assert caught.value.hint == "pass gymnasium.make_vec(id, num_envs=4)"
    with pytest.raises(arrayferry.errors.UnsupportedError, match="but SyncVectorEnv is made") as caught:
        arrayferry.wrap(gym.vector.SyncVectorEnv([Counter]), "numpy", num_envs=4)
    assert caught.value.hint == "leave num_envs out"


def test_a_dm_env_environment_is_the_one_that_it_is() -> None:
    with pytest.raises(arrayferry.errors.UnsupportedError, match="num_envs=3"):
        arrayferry.wrap(of("dm_env._environment", "Environment"), "numpy", num_envs=3)
