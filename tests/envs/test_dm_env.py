"""dm_env's environments: dm_control, bsuite, and one of no package."""

from __future__ import annotations

import numpy as np
import pytest

import arrayferry
from helpers.compare import assert_array

dm_env = pytest.importorskip("dm_env")
pytest.importorskip("shimmy")
torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.packages, pytest.mark.filterwarnings("ignore")]


def test_dm_control_equals_the_bare_environment():
    suite = pytest.importorskip("dm_control.suite")
    bare = suite.load("cartpole", "balance", task_kwargs={"random": np.random.RandomState(5)})
    env = arrayferry.wrap(suite.load("cartpole", "balance"), "torch")
    obs, _ = env.reset(seed=5)
    want = bare.reset()
    for _ in range(20):
        assert list(obs) == list(want.observation)
        for key in obs:
            assert_array(obs[key], want.observation[key], "torch")
        action = env.action_space.sample()
        obs, reward, terminated, truncated, _ = env.step(torch.from_numpy(action))
        want = bare.step(action)
        assert reward == want.reward
        assert not terminated
        assert truncated is want.last()
    env.close()


def test_bsuite_to_the_end_of_an_episode():
    catch = pytest.importorskip("bsuite.environments.catch")
    bare, env = catch.Catch(seed=3), arrayferry.wrap(catch.Catch(seed=3), "torch")
    obs, _ = env.reset()
    want, terminated = bare.reset(), False
    while not terminated:
        assert_array(obs, want.observation, "torch")
        obs, reward, terminated, truncated, _ = env.step(torch.tensor(1))
        want = bare.step(1)
        assert (reward, terminated, truncated) == (want.reward, want.last(), False)


def test_envpool_s_dm_type_is_refused_and_its_gymnasium_type_is_named():
    envpool = pytest.importorskip("envpool")
    with pytest.raises(arrayferry.FerryError, match=r'env_type="gymnasium"'):
        arrayferry.wrap(envpool.make("CartPole-v1", env_type="dm", num_envs=3), "torch")


class Counting(dm_env.Environment):
    """Is truncated after three steps, or ends with the action 2."""

    def reset(self):
        self.count = 0
        return dm_env.restart({"count": np.zeros(2)})

    def step(self, action):
        assert type(action) is np.int64
        self.count += 1
        obs = {"count": np.full(2, self.count, np.float64)}
        if action == 2:
            return dm_env.termination(1.5, obs)
        if self.count == 3:
            return dm_env.truncation(0.5, obs)
        return dm_env.transition(0.25, obs)

    def observation_spec(self):
        return {"count": dm_env.specs.Array((2,), np.float64)}

    def action_spec(self):
        return dm_env.specs.DiscreteArray(3)


def test_one_of_no_package(monkeypatch):
    env = arrayferry.wrap(Counting(), "torch")
    obs, _ = env.reset(seed=1)
    assert obs["count"].tolist() == [0, 0]
    assert env.step(torch.tensor(0))[1:4] == (0.25, False, False)
    assert env.step(torch.tensor(1))[1:4] == (0.25, False, False)
    assert env.step(torch.tensor(1))[1:4] == (0.5, False, True)
    env.reset()
    assert env.step(torch.tensor(2))[1:4] == (1.5, True, False)
    assert arrayferry.explain(Counting(), "torch", steps=3).ok
    assert arrayferry.check(Counting(), "torch", steps=6).ok
    monkeypatch.setattr(Counting, "observation_spec", lambda self: dm_env.specs.StringArray(()))
    with pytest.raises(arrayferry.errors.UnsupportedError, match="no Gymnasium space corresponds to"):
        arrayferry.wrap(Counting(), "torch")


def test_as_gymnasium_takes_it_too():
    from arrayferry.envs import as_gymnasium

    env = as_gymnasium(Counting())
    assert env.reset(seed=1)[0]["count"].tolist() == [0, 0]
    assert env.step(np.int64(1))[1:4] == (0.25, False, False)
    assert env.step(np.int64(2))[1:4] == (1.5, True, False)
    with pytest.raises(arrayferry.FerryError, match="is made already"):
        as_gymnasium(Counting(), 2)
    with pytest.raises(arrayferry.FerryError, match="is made already"):
        as_gymnasium(Counting(), max_episode_steps=9)
