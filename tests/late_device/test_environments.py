"""Environments and wrappers on the late device, with what `copies.md` promises: what you receive is yours."""

from __future__ import annotations

import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry import wrap, wrappers
from arrayferry._core import holds
from late_device.envs import ROWS, Rows, Single, policy

pytestmark = pytest.mark.late

PLACES = ["numpy", "cpu", "late:0", "late:1"]


def wrapped(source, target, env=None, **options):
    """Return an environment whose arrays are in one place, for an agent in another."""
    known = {"env_xp": "numpy"} if source == "numpy" else {"env_xp": "torch", "env_device": source}
    to = ("numpy", None) if target == "numpy" else ("torch", target)
    return wrap(Rows(source) if env is None else env, *to, **known, **options)


def values(array):
    """Return the values that an array has when all is done, as NumPy sees them."""
    if isinstance(array, np.ndarray):
        return array
    return array.cpu().numpy()


@pytest.mark.parametrize("source", PLACES)
@pytest.mark.parametrize("target", PLACES)
def test_what_you_receive_is_yours(source, target):
    env = wrapped(source, target)
    kept = [env.reset(seed=0)[0]]
    for _ in range(3):
        obs, reward, *_ = env.step(policy("numpy" if target == "numpy" else target))
        kept.append({**obs, "reward": reward})
    for step, obs in enumerate(kept):
        for name, array in obs.items():
            assert (values(array) == step).all(), name
            array[...] = 77  # nor does the environment see what the agent writes
    obs, *_ = env.step(policy("numpy" if target == "numpy" else target))
    assert all((values(array) == 4).all() for array in obs.values())
    actions = env.unwrapped.actions
    assert all((values(action) == 0.5).all() and values(action).dtype == np.float32 for action in actions)
    where = {"numpy": None, "cpu": torch.device("cpu")}.get(source) or source
    if source != "numpy":
        assert {action.device for action in actions} == {torch.device(where)}
    assert values(obs["camera"]).dtype == np.uint8


@pytest.mark.parametrize("source", ["late:0", "numpy"])
@pytest.mark.parametrize("target", ["late:0", "late:1", "numpy"])
def test_actions_are_the_agents_to_overwrite(source, target):
    env = wrapped(source, target)
    env.reset()
    action = policy("numpy" if target == "numpy" else target)
    env.step(action)
    action[...] = 9
    assert (values(env.unwrapped.actions[0]) == 0.5).all()


@pytest.mark.parametrize("target", ["late:0", "numpy"])
def test_single_environments(target):
    env = wrapped("late:0", target, Single("late:0"))
    env.reset()
    for step in range(1, 6):
        obs, reward, terminated, truncated, info = env.step(
            2 if target == "numpy" else torch.tensor(2, device=target)
        )
        assert (values(obs) == step).all()
        assert (reward, terminated, truncated) == (float(step), step > 4, False)
        assert type(reward) is float
        assert type(terminated) is bool
        assert values(info["action"]) == 2


@pytest.mark.parametrize("mode", AutoresetMode)
def test_final_observations(mode):
    def env_fn():
        return gym.make("CartPole-v1", max_episode_steps=3)

    plain = SyncVectorEnv([env_fn] * 2, autoreset_mode=mode)
    env = wrap(SyncVectorEnv([env_fn] * 2, autoreset_mode=mode), "torch", "late:1")
    plain.reset(seed=1)
    env.reset(seed=1)
    for _ in range(3):
        action = np.ones(2, np.int64)
        wanted = plain.step(action)
        found = env.step(torch.from_numpy(action).to("late:1"))
        wanted, found = (arrayferry.convert(value, "numpy") for value in (wanted, found))
        assert repr(found) == repr(wanted)
    assert ("final_obs" in found[4]) == (mode == AutoresetMode.SAME_STEP)


def test_infos_of_any_kind():
    class WithInfo(Rows):
        def step(self, action):
            info = {
                "pose": self.obs["position"],
                "name": "x",
                "nested": {"n": self.rest[0]},
                "list": [self.rest[1]],
            }
            return (*super().step(action)[:4], info)

    info = wrapped("late:0", "numpy", WithInfo("late:0"))
    info.reset()
    found = info.step(policy())[4]
    assert (found["pose"] == 1).all()
    assert found["name"] == "x"
    assert found["nested"]["n"].shape == (ROWS,)
    assert found["list"][0].dtype == bool


def test_target_spaces(late):
    env = wrapped("numpy", "late:1", spaces="target")
    env.reset()
    action = env.action_space.sample()
    assert action.device == torch.device("late:1")
    obs, *_ = env.step(action)
    assert obs in env.observation_space
    late.run_all()
    assert env.observation_space["speed"].sample().device == torch.device("late:1")


def test_nothing_is_held_after_close(late):
    env = wrapped("late:0", "late:0")
    env.reset()
    env.step(policy("late:0"))
    assert holds._holds
    with late.counting() as during:
        env.close()
    assert during["waits"] <= 3
    assert not holds._holds
    with late.counting() as during:
        env.close()
    assert during["waits"] == 0


def test_pickled_and_described():
    env = wrapped("numpy", "late:1")
    again = pickle.loads(pickle.dumps(env))
    again.reset()
    assert again.step(policy("late:1"))[0]["speed"].device == torch.device("late:1")
    assert "late:1" in repr(arrayferry.Converter("torch", "late:1"))
    assert {"late:0", "late:1"} <= {*arrayferry.frameworks()["torch"].devices}


COMPUTING = {
    "NormalizeObservation": wrappers.vector.NormalizeObservation,
    "NormalizeReward": wrappers.vector.NormalizeReward,
    "ClipReward": lambda env: wrappers.vector.ClipReward(env, -1, 2),
    "ClipAction": wrappers.vector.ClipAction,
    "RescaleAction": lambda env: wrappers.vector.RescaleAction(env, -2, 2),
    "FlattenObservation": wrappers.vector.FlattenObservation,
    "TransformReward": lambda env: wrappers.vector.TransformReward(env, lambda reward: reward * 2 + 1),
    "RescaleObservation": lambda env: wrappers.vector.RescaleObservation(env, np.float32(0), np.float32(1)),
    "RecordEpisodeStatistics": wrappers.vector.RecordEpisodeStatistics,
}

# How often the host waits in a step: to count in NumPy.
WAITS = {"RecordEpisodeStatistics": 1}


class Flat(Rows):
    """Observes the positions only."""

    def __init__(self, device):
        super().__init__(device, period=4)
        self.observation_space = self.observation_space["position"]
        self.single_observation_space = self.single_observation_space["position"]

    def reset(self, **options):
        obs, info = super().reset(**options)
        return obs["position"], info

    def step(self, action):
        obs, *rest = super().step(action)
        return (obs["position"], *rest)


@pytest.mark.parametrize("name", COMPUTING)
@pytest.mark.parametrize("device", ["late:0", "late:1"])
def test_computing_wrappers(late, name, device):
    results, waits = {}, []
    for where in "cpu", device:
        env, action = COMPUTING[name](wrapped(where, where, Flat(where))), policy(where)
        results[where] = [env.reset(seed=1)]
        for _ in range(9):
            with late.counting() as during:
                results[where].append(env.step(action))
            waits.append(during["waits"])
            assert during["cpu fallbacks"] == 0
    compare(*(arrayferry.convert(found, "numpy") for found in results.values()))
    assert waits[9:] == [WAITS.get(name, 0)] * 9


def compare(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(found, dict):
        assert found.keys() == wanted.keys()
        for key in found:
            if key not in ("t", "_t"):
                compare(found[key], wanted[key])
    elif isinstance(found, (list, tuple)):
        assert len(found) == len(wanted)
        for pair in zip(found, wanted):
            compare(*pair)
    elif isinstance(found, np.ndarray):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    else:
        assert found == wanted
