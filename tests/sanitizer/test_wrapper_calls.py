"""Every call that carries arrays is watched: whatever converts them, the sanitizer has seen."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import arrayferry
from arrayferry.sanitizer import SanitizerError, SanitizerWarning
from sanitizer.helpers import found, worse

BOX = spaces.Box(-10, 10, (3,), np.float32)
ACTIONS = np.zeros((2, 3), np.float32)
NAN = np.full((2, 3), np.nan, np.float32)


class Halves(gym.vector.VectorEnv[Any, Any, Any]):
    """A vector environment with all the methods that take a step or a reset in two calls."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    num_envs, single_observation_space, single_action_space = 2, BOX, BOX
    observation_space = action_space = spaces.Box(-10, 10, (2, 3), np.float32)

    def __init__(self, spoilt: str = "", reuses: bool = False) -> None:
        self.spoilt, self.reuses, self.memory, self.count = spoilt, reuses, np.zeros((2, 3), np.float32), 0

    def _value(self, name: str, value: Any) -> Any:
        return np.full_like(value, np.nan) if name == self.spoilt else value

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.reset_wait()

    def step(self, actions: Any) -> Any:
        return self.recv()

    def send(self, actions: Any, env_id: Any = None) -> None:
        self.count += 1
        self.memory[:] = self.count % 7  # as a worker writes into shared memory

    def recv(self) -> Any:
        obs = self.memory if self.reuses else self._value("obs", np.zeros((2, 3), np.float32))
        info = {"value": self._value("info", np.zeros(2))}
        return obs, self._value("reward", np.zeros(2)), np.zeros(2, bool), np.zeros(2, bool), info

    def reset_wait(self, timeout: Any = None) -> Any:
        obs, _, _, _, info = self.recv()
        return obs, info

    step_async, step_wait = send, recv

    def async_reset(self) -> None:
        """Begin a reset."""

    reset_async = async_reset


@pytest.mark.parametrize("name", ["recv", "step_wait", "reset_wait"])
@pytest.mark.parametrize("spoilt", ["obs", "reward", "info"])
def test_what_is_received_is_watched(name: str, spoilt: str) -> None:
    if (name, spoilt) == ("reset_wait", "reward"):
        return
    envs = arrayferry.wrap(Halves(spoilt), "numpy", sanitize=True)
    with pytest.warns(SanitizerWarning, match=f"{spoilt}.* is NaN"):
        getattr(envs, name)()
    report = arrayferry.findings(envs)
    assert not report.ok
    assert not report
    envs = arrayferry.wrap(Halves(spoilt), "torch", sanitize="raise")
    for _ in range(3):  # each time
        with pytest.raises(SanitizerError, match="NaN"):
            getattr(envs, name)()


@pytest.mark.parametrize("name", ["send", "step_async"])
def test_what_is_sent_is_watched(name: str) -> None:
    envs = arrayferry.wrap(Halves(), "numpy", sanitize="raise")
    getattr(envs, name)(ACTIONS)
    assert arrayferry.findings(envs).steps == 1
    with pytest.raises(SanitizerError, match=r"action, step 2: \[0, 0\] is NaN"):
        getattr(envs, name)(NAN)


@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize("given", ["actions", "action"])
def test_actions_by_name(given: str, sanitize: bool) -> None:
    """EnvPool's `send` and Gymnasium's `step_async` call them differently."""
    envs = arrayferry.wrap(Halves(), "numpy", sanitize=sanitize)
    envs.send(**{given: ACTIONS}, env_id=np.arange(2))
    assert envs.unwrapped.count == 1
    if sanitize:
        with pytest.warns(SanitizerWarning, match="action, step 2"):
            envs.step_async(**{given: NAN})


def test_a_final_observation_of_nan_is_found() -> None:
    class Ends(Frames):
        def step(self, action: Any) -> Any:
            return np.full(3, np.nan, np.float32), 0.0, True, False, {}

    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        envs = gym.vector.SyncVectorEnv([Ends, Frames], autoreset_mode=mode)
        report = arrayferry.check(envs, "numpy", steps=4, copy=True)
        is_same = mode is AutoresetMode.SAME_STEP
        path = 'info["final_obs"][0]' if is_same else "obs"
        assert ("nan", path) in {(one.kind, one.path) for one in report}
        assert not report


def test_sound_halves_are_clean() -> None:
    envs = arrayferry.wrap(Halves(), "numpy", sanitize="raise")
    for start, end in (("send", "recv"), ("step_async", "step_wait")):
        for _ in range(6):
            getattr(envs, start)(ACTIONS)
            getattr(envs, end)()
    envs.send(ACTIONS, env_id=np.arange(2))
    envs.async_reset()
    envs.reset_async()
    envs.reset_wait(timeout=3)
    assert not found(envs)
    assert arrayferry.findings(envs)


@pytest.mark.parametrize("halves", [("send", "recv"), ("step_async", "step_wait")])
def test_what_changes_between_two_calls_is_the_environment_s(halves: tuple[str, str]) -> None:
    envs = arrayferry.wrap(Halves(reuses=True), "numpy", copy=False, sanitize=True)
    start, end = (getattr(envs, name) for name in halves)
    start(ACTIONS)
    end()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start(ACTIONS)
        end()
    assert any("the environment wrote into obs of step 1" in str(one.message) for one in caught)
    assert ("agent-wrote", "obs") not in worse(envs)


def test_gymnasium_s_own_halves() -> None:
    envs = arrayferry.wrap(
        gym.vector.AsyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2, context="spawn"),
        "numpy",
        sanitize="raise",
    )
    try:
        envs.reset_async(seed=1)
        envs.reset_wait()
        for _ in range(5):
            envs.step_async(np.zeros(2, int))
            envs.step_wait()
        assert arrayferry.findings(envs)
        assert arrayferry.findings(envs).steps == 5
    finally:
        envs.close()


def test_workers_halves() -> None:
    workers = arrayferry.scale.ProcessVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    try:
        envs = arrayferry.wrap(workers, "numpy", sanitize="raise")
        envs.reset(seed=1)
        envs.step_async(np.zeros(2, int))
        envs.step_wait()
        assert arrayferry.findings(envs).steps == 1
        assert arrayferry.findings(envs)
    finally:
        workers.close()


class Frames(gym.Env[Any, Any]):
    """Renders a NaN."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}
    render_mode = "rgb_array"
    observation_space, action_space = BOX, spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), 0.0, False, False, {}

    def render(self) -> Any:
        return np.full((2, 2, 3), np.nan)


def test_frames_are_watched() -> None:
    env = arrayferry.wrap(Frames(), "numpy", sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match=r"frame, step 0: \[0, 0, 0\] is NaN"):
        env.render()
    assert not arrayferry.findings(env)
