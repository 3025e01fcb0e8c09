"""An environment explained: its leaves come from real steps."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import arrayferry


def verdicts(explanation):
    return {leaf.path: leaf.verdict for leaf in explanation.leaves}


class Env(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (20_000,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, keeps):
        self.memory = np.zeros(20_000) if keeps else None
        self.seen = []

    def observe(self):
        return np.zeros(20_000) if self.memory is None else self.memory

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action):
        self.seen.append(action)
        return self.observe(), np.float32(1), len(self.seen) % 3 == 0, False, {}


def test_leaves_of_an_environment_come_from_real_steps():
    env = Env(keeps=False)
    found = arrayferry.explain(env, "numpy", steps=6)
    assert verdicts(found)["obs"] == "taken over: nobody else holds it"
    assert verdicts(found)["reward"] == "converted to a float"
    assert verdicts(found)["terminated"] == "left alone: a bool is not an array"
    assert len(env.seen) == 12
    assert all(action in env.action_space for action in env.seen)
    assert found.steps == 6
    assert all(leaf.seen == 6 for leaf in found.leaves)
    assert set(found.seconds) == {"step", "action", "out"}


def test_what_an_environment_keeps_is_copied_and_advised():
    found = arrayferry.explain(Env(keeps=True), "numpy", steps=2)
    assert verdicts(found)["obs"] == "copied: the environment still holds it"
    assert "dtypes={'float64': 'float32'} halves it" in found.advice[0]
    assert "copy=False shares it" in found.advice[1]
    again = arrayferry.explain(Env(keeps=True), "numpy", steps=2, dtypes={"float64": "float32"})
    assert again.advice == ()


def test_actions(name):
    found = verdicts(arrayferry.explain(Env(keeps=False), name, steps=2))
    assert found["action"] == "copied: the agent still holds it"
    found = verdicts(arrayferry.explain(gym.make("CartPole-v1"), name, steps=2))
    assert found["action"] == "converted to a scalar, as the action space expects"


def test_vector_environment(name):
    envs = gym.make_vec("CartPole-v1", num_envs=3)
    found = {leaf.path: leaf for leaf in arrayferry.explain(envs, name, steps=3).leaves}
    assert list(found) == ["action", "obs", "reward", "terminated", "truncated"]
    assert found["obs"].shape == (3, 4)


def test_vector_environment_that_does_not_reset_itself():
    mode = gym.vector.AutoresetMode.DISABLED
    envs = gym.vector.SyncVectorEnv([lambda: Env(keeps=False)] * 2, autoreset_mode=mode)
    assert arrayferry.explain(envs, "numpy", steps=5).steps == 5


def test_an_environment_that_is_wrapped_already(name):
    env = Env(keeps=False)
    advice = f"both sides are {name}: leave one wrapper out"
    assert advice in arrayferry.explain(arrayferry.wrap(env, name), name, steps=2).advice
    assert advice not in arrayferry.explain(env, name, steps=2).advice


def test_steps_must_be_positive():
    with pytest.raises(arrayferry.errors.OptionError, match="steps=0"):
        arrayferry.explain(Env(keeps=False), "numpy", steps=0)


class SometimesReadOnly(gym.Env):
    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (4,))
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.steps += 1
        obs = np.zeros(4, np.float32)
        obs.flags.writeable = self.steps % 10 != 1
        return obs, 1.0, False, False, {}


def test_a_leaf_that_is_refused_once_is_refused():
    pytest.importorskip("torch")
    explanation = arrayferry.explain(SometimesReadOnly(), "torch", copy=False, steps=20)
    assert not explanation.ok
    [obs] = [leaf for leaf in explanation.leaves if leaf.path == "obs"]
    assert (obs.memory, obs.seen) == ("refused", 2)


def test_taken_over_is_what_the_wrapper_does():
    class Shows(Env):
        def observe(self):
            found = super().observe()
            self.address = found.ctypes.data
            return found

    for keeps in (False, True):
        said = verdicts(arrayferry.explain(Shows(keeps), "numpy", steps=2))["obs"]
        env = Shows(keeps)
        given, _ = arrayferry.wrap(env, "numpy").reset()
        assert (given.ctypes.data == env.address) is said.startswith("taken over")


class ManyRewards(Env):
    def step(self, action):
        return self.observe(), np.zeros(2), False, False, {}


def test_a_reward_of_many_objectives_stays_an_array():
    found = arrayferry.explain(ManyRewards(keeps=False), "numpy", steps=2).leaves
    [reward] = [leaf for leaf in found if leaf.path == "reward"]
    assert (reward.memory, reward.after, reward.shape) == ("copied", "float64", (2,))


def test_an_id_is_made_and_closed(monkeypatch):
    closed = []
    monkeypatch.setattr(gym.envs.classic_control.CartPoleEnv, "close", lambda env: closed.append(env))
    assert arrayferry.explain("CartPole-v1", "numpy", steps=2).title == "CartPole-v1 to numpy"
    assert len(closed) == 1


@pytest.mark.parametrize("text", ["hello", "go left", "", "torch", "Cart Pole", "a:b", "v1"])
def test_any_other_text_is_a_value(text):
    (leaf,) = arrayferry.explain(text, "numpy").leaves
    assert (leaf.path, leaf.verdict) == ("value", "left alone: a str is not an array")


@pytest.mark.parametrize("text", ["CartPol-v1", "my_games/Chess-v0", "no_such_module:Chess-v3"])
def test_what_looks_like_an_id_is_refused_with_a_hint(text):
    with pytest.raises(arrayferry.errors.UnsupportedError, match="does not name an environment") as raised:
        arrayferry.explain(text, "numpy")
    assert "id of a registered environment" in raised.value.hint


def test_an_unknown_option_gets_the_one_that_was_meant():
    with pytest.raises(arrayferry.errors.UnsupportedError, match="did you mean dtypes"):
        arrayferry.explain(Env(keeps=False), "numpy", dtype={"float64": "float32"})
