"""Learners that take PettingZoo's environments take ours."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arrayferry

pytestmark = [
    pytest.mark.learners,
    # what these packages say about each other, and about themselves
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

mpe2 = pytest.importorskip("mpe2")
torch = pytest.importorskip("torch")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from mpe2 import simple_reference_v3, simple_spread_v3, simple_tag_v3
    from pettingzoo.test import api_test, parallel_api_test

ROOT = Path(__file__).resolve().parent.parent.parent
TARGETS = ["numpy", "torch", "jax"]


def parallel(to: str, **options: Any) -> Any:
    return arrayferry.wrap(simple_spread_v3.parallel_env(max_cycles=10), to, **options)


def taking_turns(to: str, **options: Any) -> Any:
    return arrayferry.wrap(simple_spread_v3.env(max_cycles=10), to, **options)


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("module", [simple_reference_v3, simple_spread_v3, simple_tag_v3])
@pytest.mark.parametrize("continuous", [False, True])
def test_real_environments_pass_pettingzoo_s_own_tests(module: Any, to: str, continuous: bool) -> None:
    options = {"max_cycles": 10, "continuous_actions": continuous}
    api_test(arrayferry.wrap(module.env(**options), to, spaces="target"), num_cycles=20)
    parallel_api_test(arrayferry.wrap(module.parallel_env(**options), to, spaces="target"), num_cycles=20)


@pytest.mark.parametrize("to", TARGETS)
def test_a_trajectory_equals_the_bare_one(to: str) -> None:
    bare, env = simple_spread_v3.parallel_env(), parallel(to)
    pairs = [(bare.reset(seed=3)[0], env.reset(seed=3)[0])]
    rng = np.random.default_rng(3)
    for _ in range(10):
        actions = {agent: rng.integers(5) for agent in bare.agents}
        wanted, got = bare.step(actions), env.step(arrayferry.convert(actions, to))
        assert dict(got[1]) == dict(wanted[1])
        pairs.append((wanted[0], got[0]))
    for wanted, got in pairs:
        for agent, array in wanted.items():
            np.testing.assert_array_equal(arrayferry.convert(got[agent], "numpy"), array)


@pytest.mark.parametrize("where", ["env", "target"])
def test_torchrl(where: Any) -> None:
    envs = pytest.importorskip("torchrl.envs")
    rollout = envs.PettingZooWrapper(parallel("torch", spaces=where), return_state=True).rollout(12)
    assert rollout.shape == (10,)
    assert rollout["agent", "observation"].dtype == torch.float32
    assert rollout["state"].shape == (10, 54)
    turns = envs.PettingZooWrapper(taking_turns("torch", spaces=where), use_mask=True)
    assert turns.rollout(5).shape == (5,)


@pytest.mark.parametrize("to", ["numpy", "torch"])
def test_rllib(to: str) -> None:
    wrappers = pytest.importorskip("ray.rllib.env.wrappers.pettingzoo_env")
    env = wrappers.ParallelPettingZooEnv(parallel(to))
    obs, _ = env.reset(seed=1)
    kind = {"numpy": np.ndarray, "torch": torch.Tensor}[to]
    assert {type(one) for one in obs.values()} == {kind}
    for _ in range(10):
        _, rewards, terminated, truncated, _ = env.step(dict.fromkeys(env.agents, 1))
    assert {type(one) for one in rewards.values()} == {float}
    assert (terminated["__all__"], truncated["__all__"]) == (False, True)
    turns = wrappers.PettingZooEnv(taking_turns(to))
    (agent,) = turns.reset(seed=1)[0]
    assert set(turns.step({agent: 1})[0]) == {"agent_1"}


def test_rllib_s_own_multi_agent_environments() -> None:
    """They are `gymnasium.Env`s: what they return stays in dicts, and no dict becomes True."""
    module = pytest.importorskip("ray.rllib.examples.envs.classes.multi_agent")
    env = arrayferry.wrap(module.MultiAgentCartPole({"num_agents": 2}), "torch")
    obs, _ = env.reset(seed=1)
    assert {type(one) for one in obs.values()} == {torch.Tensor}
    rounds = 0
    while True:
        result = env.step({agent: torch.tensor(rounds % 2) for agent in obs})
        obs, reward, terminated, truncated, _ = result
        rounds += 1
        assert all(isinstance(one, dict) for one in result)
        assert {float(one) for one in reward.values()} <= {1.0}
        assert terminated["__all__"] in (True, False)
        if terminated["__all__"] or truncated["__all__"]:
            break
    assert rounds > 5


def test_supersuit() -> None:
    supersuit = pytest.importorskip("supersuit")
    outside = supersuit.dtype_v0(supersuit.pad_observations_v0(parallel("numpy")), np.float16)
    assert outside.reset()[0]["agent_0"].dtype == np.float16
    vector = supersuit.pettingzoo_env_to_vec_env_v1(parallel("numpy"))
    assert np.shape(vector.reset()[0]) == (3, 18)
    assert np.shape(vector.step(np.zeros(3, np.int64))[0]) == (3, 18)
    mortal = supersuit.black_death_v3(parallel("torch"))
    assert isinstance(mortal.reset()[0]["agent_0"], torch.Tensor)
    turns = supersuit.dtype_v0(taking_turns("numpy"), np.float16)
    turns.reset()
    assert turns.last()[0].dtype == np.float16
    stacked = supersuit.frame_stack_v1(simple_spread_v3.parallel_env(), 3)
    inside = arrayferry.wrap(stacked, "torch")
    inside.reset()
    obs, *_ = inside.step({agent: torch.tensor(1) for agent in inside.agents})
    assert obs["agent_0"].shape == (54,)


def test_skrl() -> None:
    wrap_env = pytest.importorskip("skrl.envs.wrappers.torch").wrap_env
    env = wrap_env(parallel("torch"))
    obs, _ = env.reset()
    assert obs["agent_0"].shape == (1, 18)
    obs, rewards, *_ = env.step({agent: torch.tensor([[1]]) for agent in env.possible_agents})
    assert isinstance(obs["agent_0"], torch.Tensor)
    assert rewards["agent_0"].shape == (1, 1)
    assert env.state()["agent_0"].shape == (1, 54)


def test_the_example_runs() -> None:
    command = [sys.executable, str(ROOT / "examples" / "pettingzoo_torch.py"), "--quick"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "update   3: mean return -" in done.stdout
