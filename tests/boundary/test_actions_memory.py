"""An action is the agent's, and what arrives is the environment's: neither sees what the other does to it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from helpers.envs import Recorder, Reusing


def test_the_agent_s_action_is_the_agent_s() -> None:
    """The environment writes to the action it got, and the agent writes to the one it gave."""
    torch = pytest.importorskip("torch")
    for action in (torch.ones(2), np.ones(2, np.float32)):
        env = arrayferry.wrap(Reusing(), "torch")
        env.reset()
        env.step(action)
        assert action.tolist() == [1, 1]
    base = Recorder()
    env = arrayferry.wrap(base, "torch")
    env.reset()
    given = [torch.ones(3), np.ones(3, np.float32), [1.0, 1.0, 1.0]]
    for action in given:
        env.step(action)
        action[0] = 9
    assert [action.tolist() for action in base.actions] == [[1, 1, 1]] * 3


def test_a_batch_of_actions_that_the_environments_keep() -> None:
    torch = pytest.importorskip("torch")
    envs = gym.vector.SyncVectorEnv([Recorder, Recorder])
    wrapped = arrayferry.wrap(envs, "torch")
    wrapped.reset()
    actions = torch.ones(2, 3)
    for _ in range(3):
        wrapped.step(actions)
        actions += 1
    for env in envs.envs:
        assert [action.tolist() for action in env.actions] == [[n] * 3 for n in (1, 2, 3)]


def test_an_environment_that_keeps_every_action(target: str) -> None:
    base = Recorder(spaces.Dict(a=spaces.Box(-9, 9, (2,), np.float32), n=spaces.Discrete(9)))
    env = arrayferry.wrap(base, target)
    env.reset()
    given = [{"a": np.full(2, n, np.float32), "n": np.array(n)} for n in range(4)]
    for action in given:
        converted = arrayferry.convert(action, target)
        env.step(converted)
        for name in ("a", "n"):
            try:
                converted[name][...] = 8
            except (TypeError, NotImplementedError, IndexError):
                continue  # arrays of this framework cannot be written
    assert [action["a"].tolist() for action in base.actions] == [[n, n] for n in range(4)]
    assert [int(action["n"]) for action in base.actions] == [0, 1, 2, 3]


def test_options_are_the_environment_s_own_copy() -> None:
    torch = pytest.importorskip("torch")
    base = Recorder()
    state = torch.ones(2)
    arrayferry.wrap(base, "torch").reset(options={"state": state})
    state += 1
    assert base.resets[0][1]["state"].tolist() == [1, 1]
    base.resets[0][1]["state"][:] = 7
    assert state.tolist() == [2, 2]
