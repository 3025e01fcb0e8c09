"""Environments by id, by module and id, and by module and class."""

from __future__ import annotations

import sys

import gymnasium as gym
import pytest

import arrayferry
from arrayferry.cli.environments import default_target, make, title_of
from arrayferry.errors import OptionError


def test_make():
    assert make("CartPole-v1").spec.id == "CartPole-v1"
    assert make("CartPole-v1", 2).num_envs == 2
    assert make("helpers.envs:Counts-v0").spec.id == "Counts-v0"


def test_make_from_a_class():
    assert type(make("helpers.envs:Counts")).__name__ == "Counts"
    vector = make("helpers.envs:Counts", 3)
    assert isinstance(vector, gym.vector.SyncVectorEnv)
    assert vector.num_envs == 3


FILE = """
import gymnasium as gym
from helper_beside_it import SPACE

class Env(gym.Env):
    observation_space, action_space = SPACE, gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}

gym.register("InFile-v0", Env)
"""


@pytest.mark.parametrize("name", ["some_file.py", "some-file.py"])
def test_make_from_a_file(tmp_path, monkeypatch, name):
    monkeypatch.setattr("sys.path", [*sys.path])
    folder = tmp_path / "some" / "path"
    folder.mkdir(parents=True)
    (folder / "helper_beside_it.py").write_text("import gymnasium as gym\nSPACE = gym.spaces.Discrete(3)")
    (folder / name).write_text(FILE)
    monkeypatch.chdir(tmp_path)
    try:
        for path in (f"some/path/{name}", str(folder / name)):
            assert type(make(f"{path}:Env")).__name__ == "Env"
            assert make(f"{path}:Env", 2).num_envs == 2
            assert make(f"{path}:InFile-v0").spec.id == "InFile-v0"
            with pytest.raises(OptionError, match=r"cannot be made[\s\S]*has no such class"):
                make(f"{path}:Enf")
    finally:
        gym.registry.pop("InFile-v0", None)
        for module in ("helper_beside_it", "some_file", "some-file"):
            sys.modules.pop(module, None)


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ("CartPol-v1", "CartPol-v1 cannot be made: Environment `CartPol` doesn't exist. Did you mean"),
        ("cartpole-v1", "Did you mean: `CartPole`"),
        ("CartPole-v9", "versioned environments: [ `v0`, `v1` ]"),
        ("Nonesuch", "if a package registers it, write package:Nonesuch"),
        ("ALE/Pong-v5", "if a package registers it, write package:ALE/Pong-v5"),
        ("no_such_module:X-v0", "no_such_module:X-v0 cannot be made: No module named 'no_such_module'"),
        ("helpers.envs:Count-v0", "Did you mean: `Counts`"),
        ("helpers.envs:Conts", "helpers.envs registers no such environment, and has no such class"),
        ("no_such.py:Counts", "no_such.py:Counts cannot be made: No module named 'no_such'"),
        ("helpers.envs:not_an_environment", "Environment `not_an_environment` doesn't exist"),
    ],
)
def test_what_cannot_be_made(env, text):
    with pytest.raises(OptionError) as error:
        make(env)
    assert text in str(error.value)


def test_what_is_not_installed_is_registered_already(monkeypatch):
    def make_one(name):
        raise gym.error.DependencyNotInstalled("MuJoCo is not installed, run pip install mujoco.")

    monkeypatch.setattr(gym, "make", make_one)
    with pytest.raises(OptionError) as error:
        make("Ant-v5")
    assert error.value.hint == ""


def test_default_target(monkeypatch):
    monkeypatch.setattr(arrayferry, "frameworks", lambda: {"numpy": None, "jax": None})
    assert default_target() == "jax"
    monkeypatch.setattr(arrayferry, "frameworks", lambda: {"numpy": None})
    assert default_target() == "numpy"


def test_title():
    assert title_of("CartPole-v1", None, "torch") == "CartPole-v1 to torch"
    assert title_of("CartPole-v1", 8, "torch") == "CartPole-v1 x 8 to torch"
