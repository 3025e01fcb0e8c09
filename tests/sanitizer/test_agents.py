"""The sanitizer and `check` with PettingZoo's environments: findings by agent, and none without a reason."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry.errors import FerryError

pytest.importorskip("pettingzoo")

from pettingzoo import AECEnv
from pettingzoo.utils.conversions import parallel_to_aec

from helpers.pettingzoo_envs import ThreeAgents, Told, aec

MAKERS = pytest.mark.parametrize("make", [ThreeAgents, aec], ids=["parallel", "aec"])


class Broken(ThreeAgents):
    """Returns NaN from its third step on."""

    def _observe(self, agent: str) -> Any:
        seen = super()._observe(agent)
        if self.count >= 3 and agent == "walker_0":
            seen["observation"] = np.full(4, np.nan)
        return seen


class Reusing(ThreeAgents):
    """Writes each observation of an agent into the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = np.zeros(4, np.uint8)

    def _observe(self, agent: str) -> Any:
        seen = super()._observe(agent)
        if agent == "turner_0":
            self.memory[:] = self.count
            seen["observation"] = self.memory
        return seen


@MAKERS
@pytest.mark.parametrize("to", ["numpy", "torch"])
def test_a_sound_environment_is_safe(make: Any, to: str) -> None:
    pytest.importorskip(to)
    report = arrayferry.check(make(), to, steps=60)
    assert report.ok
    assert report.verdict == "safe as wrapped; safe with copy=False too"


@pytest.mark.parametrize("take_turns", [False, True])
def test_findings_name_the_agent(take_turns: bool) -> None:
    env = parallel_to_aec(Broken()) if take_turns else Broken()
    report = arrayferry.check(env, "numpy", steps=30, copy=True)
    found = {(one.kind, one.path) for one in report if one.severity != "info"}
    path = 'obs["walker_0"]["observation"]'
    assert found == {("nan", path), ("dtype-changed", path), ("outside-space", path)}


def test_memory_that_is_written_again_is_found() -> None:
    report = arrayferry.check(Reusing(), "numpy", steps=20)
    assert report.ok
    assert not report.shareable
    assert {one.path for one in report.sharing} == {'obs["turner_0"]["observation"]'}


@MAKERS
def test_watched_environments_are_found_and_pickled(make: Any) -> None:
    env = arrayferry.wrap(make(), "numpy", sanitize=True)
    twin = pickle.loads(pickle.dumps(env))
    for one in (env, twin):
        one.reset(seed=1)
        assert arrayferry.findings(one).ok
        assert one.unwrapped.metadata["name"] == "zoo_v0"
    with arrayferry.sanitize("raise"):
        watched = arrayferry.wrap(Told({"a": np.full(2, np.nan)}, {}, {}, {}, {}), "numpy")
    with pytest.raises(FerryError, match=r'obs\["a"\]'):
        watched.step({"a": 1})


class NaNs(AECEnv[str, Any, Any]):
    """Has a NaN in one of the places where an AEC environment has numbers."""

    metadata: ClassVar[dict[str, Any]] = {"name": "nans_v0"}
    possible_agents: ClassVar[list[str]] = ["a"]

    def __init__(self, spoilt: str) -> None:
        super().__init__()
        self.spoilt = spoilt
        self.agents, self.agent_selection = ["a"], "a"
        self.rewards = {"a": self._value("rewards")}
        self._cumulative_rewards = {"a": self._value("_cumulative_rewards")}
        self.terminations, self.truncations = {"a": False}, {"a": False}
        self.infos = {"a": {"x": np.full(2, self._value("infos"))}}

    def _value(self, name: str) -> float:
        return np.nan if name == self.spoilt else 0.0

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (2,), np.float32)

    action_space = observation_space

    def reset(self, seed: Any = None, options: Any = None) -> None:
        """Start an episode."""

    def step(self, action: Any) -> None:
        """Do nothing."""

    def observe(self, agent: str) -> Any:
        return np.full(2, self._value("observe"), np.float32)

    def state(self) -> Any:
        return np.full(3, self._value("state"))


READ: dict[str, tuple[str, Any]] = {
    "observe": ("observe", lambda env: env.observe("a")),
    "last, the observation": ("observe", lambda env: env.last()),
    "last, the reward": ("_cumulative_rewards", lambda env: env.last()),
    "last without observation, the reward": ("_cumulative_rewards", lambda env: env.last(observe=False)),
    "last without observation, the info": ("infos", lambda env: env.last(False)),
    "rewards": ("rewards", lambda env: env.rewards),
    "infos": ("infos", lambda env: env.infos),
    "cumulative rewards": ("_cumulative_rewards", lambda env: env._cumulative_rewards),
    "state": ("state", lambda env: env.state()),
    "step": ("", lambda env: env.step(np.full(2, np.nan, np.float32))),
}


@pytest.mark.parametrize(("spoilt", "read"), READ.values(), ids=READ)
def test_whatever_passes_in_turns_is_watched(spoilt: str, read: Any) -> None:
    env = arrayferry.wrap(NaNs(spoilt), "numpy", sanitize="raise")
    env.reset()
    with pytest.raises(FerryError, match="NaN"):
        read(env)
    assert not arrayferry.findings(env)
    sound = arrayferry.wrap(NaNs("nothing"), "numpy", sanitize="raise")
    sound.reset()
    if spoilt:
        read(sound)
        assert arrayferry.findings(sound)


def test_the_state_of_agents_in_parallel_is_watched() -> None:
    class Stated(ThreeAgents):
        def state(self) -> Any:
            return np.full(3, np.nan)

    env = arrayferry.wrap(Stated(), "numpy", sanitize="raise")
    with pytest.raises(FerryError, match=r"state, step 0: \[0\] is NaN"):
        env.state()


@MAKERS
def test_a_seed_by_position(make: Any) -> None:
    for sanitize in (False, True):
        env = arrayferry.wrap(make(), "numpy", sanitize=sanitize)
        env.reset(1)
        env.reset(1, {"a": 1})
        env.env.reset(1)


class Late(ThreeAgents):
    """An agent joins in the third step, with a NaN."""

    def step(self, actions: Any) -> Any:
        obs, rewards, terminated, truncated, infos = super().step(actions)
        if self.count >= 3:
            rewards["late_0"] = np.nan
        return obs, rewards, terminated, truncated, infos


def test_agents_that_come_later_are_watched() -> None:
    report = arrayferry.check(Late(), "numpy", steps=10, copy=True)
    assert ("nan", 'reward["late_0"]') in {(one.kind, one.path) for one in report}
    assert not report


class Team(gym.Env[Any, Any]):
    """RLlib's kind: a Gymnasium environment with dicts for reward and dones."""

    observation_space = spaces.Dict(a=spaces.Box(-1, 1, (2,)))
    action_space = spaces.Dict(a=spaces.Discrete(2))

    def __init__(self) -> None:
        self.count = self.resets = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.count, self.resets = 0, self.resets + 1
        return {"a": np.zeros(2, np.float32)}, {}

    def step(self, action: Any) -> Any:
        self.count += 1
        flags = {"a": self.count > 4, "__all__": self.count > 4}
        return {"a": np.zeros(2, np.float32)}, {"a": 1.0}, flags, {"__all__": False}, {}


def test_dicts_of_dones_do_not_end_every_episode() -> None:
    env = Team()
    assert arrayferry.check(env, "numpy", steps=20, copy=True).ok
    assert env.resets == 5
    assert arrayferry.explain(Team(), "numpy").leaves
