"""Environments of other packages, stepped: every result equals that of the bare environment."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from helpers.compare import assert_array, assert_crossed

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.packages, pytest.mark.filterwarnings("ignore")]

PACKAGES = {
    "minigrid": "MiniGrid-DoorKey-5x5-v0",
    "highway_env": "highway-fast-v0",
    "vizdoom.gymnasium_wrapper": "VizdoomBasic-v1",
    "mo_gymnasium": "mo-mountaincar-v0",
    "ale_py": "ALE/Pong-v5",
}


BALL = """
<mujoco><worldbody>
  <body><freejoint/><geom size=".1"/></body>
  <geom type="plane" size="1 1 1"/>
</worldbody></mujoco>
"""


def make(package: str) -> Any:
    module = pytest.importorskip(package)
    if package == "ale_py":
        gym.register_envs(module)
    maker = importlib.import_module("mo_gymnasium") if package == "mo_gymnasium" else gym
    return maker.make(PACKAGES[package], disable_env_checker=True)


def reset(env: Any, seed: int) -> Any:
    obs, info = env.reset(seed=seed)
    info.pop("action", None)  # highway-env samples one without a seed
    return obs, info


@pytest.fixture(autouse=True)
def _folder_of_its_own(monkeypatch, tmp_path):
    """VizDoom writes its settings into the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("to", ["torch", "jax"])
@pytest.mark.parametrize("package", PACKAGES)
def test_equal_to_the_bare_environment(package, to):
    bare, env = make(package), arrayferry.wrap(make(package), to)
    actions = copy.deepcopy(bare.action_space)
    actions.seed(4)
    assert_crossed(reset(env, 4), reset(bare, 4), to)
    for _ in range(12):
        action = actions.sample()
        want, got = bare.step(action), env.step(arrayferry.convert(action, to))
        assert_crossed((got[0], got[4]), (want[0], want[4]), to)
        if package == "mo_gymnasium":  # a reward for each objective
            assert_array(got[1], want[1], to)
        else:
            assert got[1] == want[1]
        assert got[2:4] == want[2:4]
        if want[2] or want[3]:
            assert_crossed(reset(env, 5), reset(bare, 5), to)
    bare.close()
    env.close()


def test_vectors_of_objectives():
    """`mo_gymnasium.wrappers.vector.MOSyncVectorEnv` has a reward for each objective."""
    mo = pytest.importorskip("mo_gymnasium")
    from mo_gymnasium.wrappers.vector import MOSyncVectorEnv

    bare, inner = (MOSyncVectorEnv([lambda: mo.make("mo-mountaincar-v0")] * 2) for _ in range(2))
    envs = arrayferry.wrap(inner, "torch", reward_dtype="float32")
    envs.reset(seed=1)
    bare.reset(seed=1)
    for _ in range(5):
        want = bare.step(np.array([0, 2]))
        got = envs.step(torch.tensor([0, 2]))
        assert got[1].shape == (2, 3)
        assert np.array_equal(got[1], want[1].astype(np.float32))
        assert np.array_equal(got[0], want[0])


def test_a_model_of_mjx_keeps_its_treedef():
    mujoco, mjx = pytest.importorskip("mujoco"), pytest.importorskip("mujoco.mjx")
    jax = pytest.importorskip("jax")
    model = mjx.put_model(mujoco.MjModel.from_xml_string(BALL), impl="jax")
    for value in (mjx.make_data(model), model):
        there = arrayferry.convert(value, "torch")
        assert type(there) is type(value)
        back = arrayferry.convert(there, "jax")
        assert jax.tree.structure(there) == jax.tree.structure(value)
        assert jax.tree.structure(back) == jax.tree.structure(value)
        for old, new in zip(jax.tree.leaves(value), jax.tree.leaves(back), strict=True):
            assert np.array_equal(old, new, equal_nan=True)


def test_the_environments_of_learners_are_refused_with_their_hint():
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    with pytest.raises(arrayferry.errors.UnsupportedError, match="make_vec_env"):
        arrayferry.wrap(vec_env.DummyVecEnv([lambda: gym.make("CartPole-v1")]), "torch")
    torchrl = pytest.importorskip("torchrl.envs")
    with pytest.raises(arrayferry.errors.UnsupportedError, match="GymWrapper"):
        arrayferry.wrap(torchrl.GymEnv("CartPole-v1"), "torch")
