"""Who wrote into whose memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry.sanitizer import SanitizerWarning
from helpers.envs import BOX, Counter, Held, Recorder, Reusing
from sanitizer.helpers import ACTION, FRESH, found, worse

# Those that write into shared memory.
writable = pytest.mark.parametrize("agent", ["numpy", "torch"])


@pytest.fixture
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SanitizerWarning)
        yield


class Keeper(Recorder):
    """Keeps the actions, or does not."""

    def __init__(self, keep: bool) -> None:
        super().__init__()
        self.keep = keep

    def step(self, action: Any) -> Any:
        result = super().step(action)
        if not self.keep:
            self.actions.clear()
        return result


@writable
@pytest.mark.usefixtures("quiet")
def test_the_environment_writes_into_what_it_has_handed_out(agent: str) -> None:
    pytest.importorskip(agent)
    env = arrayferry.wrap(Reusing(), agent, copy=False, sanitize=True)
    env.reset()
    for _ in range(2):
        env.step(arrayferry.convert(ACTION.copy(), agent))
    wrote = {path: finding for (kind, path), finding in worse(env).items() if kind == "environment-wrote"}
    assert set(wrote) == {'obs["a"]', 'obs["b"]', 'info["nested"]["c"]', 'info["image"]', "action"}
    a = wrote['obs["a"]']
    assert (a.severity, a.step, a.times) == ("error", 1, 2)
    assert "into obs of step 0" in a.message
    assert "3 of 3 elements changed, [0] was 0.0 and is 1.0" in a.message
    assert "copy at None" in a.hint
    assert (
        "the agent's action of step 1: 2 of 2 elements changed, [0] was 1.0 and is -1.0"
        in wrote["action"].message
    )


def test_with_private_arrays_a_reused_buffer_is_an_info(name: str) -> None:
    for copy in (None, True):
        env = arrayferry.wrap(Reusing(), name, copy=copy, sanitize=True)
        env.reset()
        for _ in range(5):
            env.step(arrayferry.convert(ACTION, name))
        assert {key[0] for key in found(env)} == {"environment-wrote"}
        assert {(one.severity, one.times) for one in found(env).values()} == {("info", 1)}
        assert arrayferry.findings(env).ok


def test_a_ring_of_buffers_is_followed_for_some_steps() -> None:
    class Ring(Counter):
        def __init__(self, length: int) -> None:
            super().__init__(1000, self.fill)
            self.ring, self.turn = [np.zeros(3, np.float32) for _ in range(length)], 0

        def fill(self, count: int) -> Any:
            self.turn = (self.turn + 1) % len(self.ring)
            self.ring[self.turn][:] = count
            return self.ring[self.turn]

    for length, seen in ((2, True), (3, True), (4, True), (9, False)):
        env = arrayferry.wrap(Ring(length), "numpy", sanitize=True)
        env.reset()
        for _ in range(10):
            env.step(1)
        assert (("environment-wrote", "obs") in found(env)) is seen, length


@pytest.mark.parametrize(
    ("give", "severity"),
    [
        (lambda state: state, "error"),
        (lambda state: state[:], "error"),
        (lambda state: state.reshape(3, 1)[:, 0], "error"),
        (lambda state: np.frombuffer(state.data, np.float32), "warning"),  # by ways that cannot be counted
    ],
    ids=["itself", "view", "view_of_view", "buffer"],
)
@writable
def test_the_agent_writes_into_what_the_environment_reads(
    give: Callable[[Any], Any], severity: str, agent: str
) -> None:
    pytest.importorskip(agent)
    env = arrayferry.wrap(Held(give), agent, copy=False, sanitize=True)
    obs, _ = env.reset()
    obs[1] = 7
    with pytest.warns(SanitizerWarning, match=r"obs, step 1: the agent wrote into obs of step 0.*1 of 3"):
        env.step(1)
    finding = found(env)["agent-wrote", "obs"]
    assert finding.severity == severity
    assert "[1] was 0.0 and is 7.0" in finding.message
    assert ("environment-wrote", "obs") not in found(env)


def test_the_agent_writes_into_an_older_observation() -> None:
    states: list[Any] = []

    def give(state: Any) -> Any:
        states.append(state)
        return state

    env = arrayferry.wrap(Held(give), "numpy", copy=False, sanitize=True)
    old, _ = env.reset()
    env.step(1)
    env.step(1)
    old += 1
    with pytest.warns(SanitizerWarning, match=r"obs, step 3: the agent wrote into obs of step 0"):
        env.step(1)


@pytest.mark.parametrize("give", FRESH)
@writable
def test_an_agent_may_write_into_what_nobody_else_holds(give: str, agent: str) -> None:
    pytest.importorskip(agent)
    env = arrayferry.wrap(Held(FRESH[give]), agent, copy=False, sanitize=True)
    obs, _ = env.reset()
    for _ in range(4):
        obs += 1
        obs, *_ = env.step(1)
    assert found(env) == {}


@writable
def test_arrays_that_only_the_result_holds_more_than_once(agent: str) -> None:
    """The same array in observation and info, and two halves of one new array: nobody else holds them."""
    pytest.importorskip(agent)

    class Twice(Held):
        kept = None

        def results(self) -> Any:
            whole, same = np.zeros(6, np.float32), np.zeros(3, np.float32)
            obs = {"left": whole[:3], "right": whole[3:], "same": same}
            return obs, {"same": same, "again": [same, same[:2]]}

        def reset(self, **kwargs: Any) -> Any:
            return self.results()

        def step(self, action: Any) -> Any:
            obs, info = self.results()
            if action:
                self.kept = [obs["left"], obs["right"], obs["same"], obs["left"].base][action - 1]
            return obs, 0.0, False, False, info

    left, right = 'obs["left"]', 'obs["right"]'
    same = {'obs["same"]', 'info["same"]', 'info["again"][0]', 'info["again"][1]'}
    for keeps, expected in enumerate([set(), {left}, {right}, same, {left, right}]):
        bare = Twice()
        bare.observation_space = spaces.Dict(left=BOX, right=BOX, same=BOX)
        bare.action_space = spaces.Discrete(5)
        env = arrayferry.wrap(bare, agent, copy=False, sanitize=True)
        obs, _ = env.reset()
        for _ in range(3):
            for key in obs:
                obs[key] += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SanitizerWarning)
                obs, *_ = env.step(keeps)
        assert {path for kind, path in found(env) if kind == "agent-wrote"} <= expected
        assert {path for kind, path in found(env) if kind == "kept"} == {
            p for p in expected if p[:3] == "obs"
        }
        assert arrayferry.findings(env).ok is (keeps == 0)


@writable
def test_an_environment_of_torch_that_writes(agent: str) -> None:
    torch = pytest.importorskip("torch")

    class Adds(Held):
        def step(self, action: Any) -> Any:
            self.state.add_(1)
            return self.state[:], 0.0, False, False, {}

    env = arrayferry.wrap(Adds(lambda state: state.view(3), torch), agent, copy=False, sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match="the environment wrote into obs of step 0"):
        env.step(arrayferry.convert(1, agent))


def test_an_agent_may_write_into_private_arrays(name: str) -> None:
    env = arrayferry.wrap(Held(), name, sanitize=True)
    obs, _ = env.reset()
    for _ in range(3):
        if name in ("numpy", "torch"):
            obs += 1
        obs, *_ = env.step(arrayferry.convert(1, name))
    assert found(env) == {}


def test_observations_held_by_gymnasiums_checker_are_not_blamed() -> None:
    """It holds the first two observations; an agent that writes into them harms nobody."""
    env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy", copy=False, sanitize=True)
    obs, _ = env.reset(seed=1)
    for _ in range(5):
        obs *= 2
        obs, *_ = env.step(0)
    assert found(env) == {}
    env = arrayferry.wrap(gym.make("MountainCarContinuous-v0"), "numpy", copy=False, sanitize=True)
    obs, _ = env.reset(seed=1)
    for _ in range(2):
        obs *= 2
        obs, *_ = env.step(np.zeros(1, np.float32))
    obs *= 2
    with pytest.warns(SanitizerWarning, match="agent wrote into obs of step 2, which the environment still"):
        env.step(np.zeros(1, np.float32))


@pytest.mark.usefixtures("quiet")
def test_an_action_that_the_environment_keeps() -> None:
    for keep in (True, False):
        for target in ("numpy", "torch"):
            pytest.importorskip(target)
            env = arrayferry.wrap(Keeper(keep), target, copy=False, sanitize=True)
            env.reset()
            action = arrayferry.convert(np.zeros(3, np.float32), target)
            for _ in range(3):
                action += 1  # the same memory each time
                env.step(action)
            wanted = {("agent-wrote", "action")} if keep else set()
            assert set(found(env)) == wanted
            if keep:
                assert (
                    "its action of step 1, which the environment has kept"
                    in found(env)["agent-wrote", "action"].message
                )


def test_an_action_that_was_cast_may_be_written_to() -> None:
    class Clips(Recorder):
        def step(self, action: Any) -> Any:
            action[:] = 0
            return super().step(action)

    env = arrayferry.wrap(Clips(), "numpy", sanitize=True)
    env.reset()
    action = np.ones(3)  # float64, and the space has float32
    env.step(action)
    assert action.sum() == 3
    assert found(env) == {}


def test_torch_environments_are_watched_and_jax_arrays_cannot_be_written() -> None:
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    env = arrayferry.wrap(Held(lambda state: state.detach(), torch), "numpy", copy=False, sanitize=True)
    obs, _ = env.reset()
    obs += 1
    with pytest.warns(SanitizerWarning, match="which the environment may still hold"):
        env.step(np.array(1))
    env = arrayferry.wrap(Held(xp=jnp), "jax", copy=False, sanitize=True)
    env.reset()
    env.step(jnp.array(1))
    assert found(env) == {}


def test_writes_of_render_are_the_environments() -> None:
    class Renders(Held):
        def render(self) -> Any:
            self.state[:] = 9

    env = arrayferry.wrap(Renders(), "numpy", copy=False, sanitize=True)
    env.reset()
    with pytest.warns(SanitizerWarning, match="the environment wrote into obs of step 0"):
        env.render()
    env.step(1)
    assert ("agent-wrote", "obs") not in found(env)


def test_memory_is_watched_for_four_steps() -> None:
    class New(Held):
        def step(self, action: Any) -> Any:
            self.history.append(np.zeros(1000, np.uint8))
            return self.history[-1], 0.0, False, False, {}

    env = New()
    env.history = []
    env.observation_space = spaces.Box(0, 255, (1000,), np.uint8)
    sanitizer = arrayferry.sanitizer.Sanitizer(env)
    for _ in range(20):
        sanitizer.step(1)
    assert [one.step for one in sanitizer._writes._watched.values()] == [17, 18, 19, 20]
