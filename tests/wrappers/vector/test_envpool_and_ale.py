"""EnvPool's and ALE's vectors, with what they have beyond Gymnasium's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import arrayferry
from helpers.compare import assert_array, assert_crossed

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.packages, pytest.mark.filterwarnings("ignore")]


def make(task: str = "CartPole-v1", **options: Any) -> Any:
    envpool = pytest.importorskip("envpool")
    return envpool.make(task, env_type="gymnasium", num_envs=4, seed=3, **options)


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
def test_envpool_equals_the_bare_one(task):
    bare, envs = make(task), arrayferry.wrap(make(task), "torch")
    assert_crossed(envs.reset(), bare.reset(), "torch")
    random = np.random.default_rng(1)
    for _ in range(60):
        action = random.integers(0, 2, 4) if task == "CartPole-v1" else random.uniform(-2, 2, (4, 1))
        want = bare.step(action.astype(np.int32 if task == "CartPole-v1" else np.float32))
        assert_crossed(envs.step(torch.from_numpy(action)), want, "torch")


def test_envpool_sends_and_receives_some_of_them():
    bare, envs = (
        make(batch_size=2, num_threads=1),
        arrayferry.wrap(make(batch_size=2, num_threads=1), "torch"),
    )
    assert envs.is_async
    envs.async_reset()
    bare.async_reset()
    for _ in range(8):
        got, want = envs.recv(), bare.recv()
        assert got[0].shape == (2, 4)
        assert isinstance(got[4]["env_id"], torch.Tensor)
        envs.send(torch.ones(2, dtype=torch.int64), got[4]["env_id"])
        bare.send(np.ones(2, np.int32), want[4]["env_id"])
        order, other = got[4]["env_id"].argsort(), want[4]["env_id"].argsort()
        if (
            got[4]["env_id"][order].tolist() == want[4]["env_id"][other].tolist()
        ):  # whose turn it is, is chance
            assert_array(got[0][order], want[0][other], "torch")


@pytest.mark.parametrize("options", [{}, {"batch_size": 2, "num_threads": 1}], ids=["all", "some"])
def test_envpool_is_watched_as_it_sends_and_receives(options):
    envs = arrayferry.wrap(make(**options), "torch", sanitize="raise")
    envs.async_reset()
    for _ in range(20):
        obs, *_, info = envs.recv()
        envs.send(torch.ones(len(obs), dtype=torch.int64), env_id=info["env_id"])
    assert arrayferry.findings(envs)
    assert arrayferry.findings(envs).steps == 20


def test_envpool_s_xla_is_within_reach():
    pytest.importorskip("jax")
    handle, recv, send, step = arrayferry.wrap(make(), "jax").xla()
    assert handle is not None
    assert all(map(callable, (recv, send, step)))


def test_envpool_is_explained_and_checked():
    explanation = arrayferry.explain(make(), "torch", steps=3)
    assert explanation.ok
    assert next(leaf for leaf in explanation.leaves if leaf.path == "action").shape == (4,)
    assert arrayferry.check(make(), "torch", steps=20).ok


def test_ale_s_vector():
    ale = pytest.importorskip("ale_py.vector_env")
    bare, inner = (ale.AtariVectorEnv("pong", num_envs=2, num_threads=1) for _ in range(2))
    envs: Any = arrayferry.wrap(inner, "torch", reward_dtype="float32")
    assert envs.autoreset_mode is bare.autoreset_mode
    assert_crossed(envs.reset(seed=3), bare.reset(seed=3), "torch")
    action = np.array([2, 3])
    for number in range(4):
        if number % 2:
            got, want = envs.step(torch.from_numpy(action)), list(bare.step(action))
        else:
            envs.send(torch.from_numpy(action))
            bare.send(action)
            got, want = envs.recv(), list(bare.recv())
        want[1] = want[1].astype(np.float32)
        assert_crossed(got, tuple(want), "torch")
