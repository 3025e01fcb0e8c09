"""Environments by id, by module and id, and by module and class."""

from __future__ import annotations

import gymnasium as gym
import pytest

import arrayferry
from arrayferry.cli.environments import default_target, make, title_of
from arrayferry.cli.exits import UsageError


def test_make():
    assert make("CartPole-v1").spec.id == "CartPole-v1"
    assert make("CartPole-v1", 2).num_envs == 2
    assert make("toys:Counts-v0").spec.id == "Counts-v0"


def test_make_from_a_class():
    assert type(make("toys:Counts")).__name__ == "Counts"
    vector = make("toys:Counts", 3)
    assert isinstance(vector, gym.vector.SyncVectorEnv)
    assert vector.num_envs == 3


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ("CartPol-v1", "there is no environment 'CartPol-v1': did you mean CartPole-v1"),
        ("cartpole-v1", "did you mean CartPole-v1"),
        ("CartPole-v9", "did you mean CartPole-v1"),
        ("Nonesuch", "if a package registers it, write package:Nonesuch"),
        ("ALE/Pong-v5", "install ale_py and write ale_py:ALE/Pong-v5"),
        ("no_such_module:X-v0", "no_such_module cannot be imported: ModuleNotFoundError: No module"),
        ("toys:Count-v0", "did you mean Counts-v0?"),
        ("toys:not_an_environment", "neither an environment class nor a function that makes one"),
    ],
)
def test_what_cannot_be_made(env, text):
    with pytest.raises(UsageError) as error:
        make(env)
    assert text in str(error.value)


def test_default_target(monkeypatch):
    monkeypatch.setattr(arrayferry, "frameworks", lambda: {"numpy": None, "jax": None})
    assert default_target() == "jax"
    monkeypatch.setattr(arrayferry, "frameworks", lambda: {"numpy": None})
    assert default_target() == "numpy"


def test_title():
    assert title_of("CartPole-v1", None, "torch") == "CartPole-v1 to torch"
    assert title_of("CartPole-v1", 8, "torch") == "CartPole-v1 x 8 to torch"
