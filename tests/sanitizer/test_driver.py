"""`check`: an environment driven with sampled actions, and reported about."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from helpers.envs import BOX, Counter, Recorder, Reusing, Scripted

CLEAN = "CartPole-v1 MountainCar-v0 Acrobot-v1 Pendulum-v1 Taxi-v4 Blackjack-v1".split()


@pytest.mark.parametrize("agent", ["numpy", "torch"])
@pytest.mark.parametrize("name", CLEAN)
def test_environments_of_gymnasium_are_clean(name: str, agent: str) -> None:
    pytest.importorskip(agent)
    report = arrayferry.check(name, agent, steps=300)
    assert list(report) == []
    assert report.sharing == ()
    assert report.ok
    assert report.shareable is True
    assert report.verdict == "safe as wrapped; safe with copy=False too"
    assert report.steps == 600


@pytest.mark.parametrize("name", ["FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1"])
def test_an_info_that_is_an_integer_first(name: str) -> None:
    """They return `{"prob": 1}` from reset and a float from then on."""
    report = arrayferry.check(name, steps=50)
    assert [(one.kind, one.path, one.severity) for one in report] == [
        ("dtype-changed", 'info["prob"]', "info")
    ]
    assert report.ok


def test_a_state_that_is_returned_itself() -> None:
    report = arrayferry.check("MountainCarContinuous-v0", steps=50)
    assert list(report) == []
    assert [(one.kind, one.path) for one in report.sharing] == [("kept", "obs")]
    assert report.shareable is False
    assert str(report).startswith("safe as wrapped; not safe with copy=False\n")


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1"])
@pytest.mark.parametrize("mode", gym.vector.AutoresetMode)
def test_vector_environments_in_every_autoreset_mode(name: str, mode: Any) -> None:
    envs = gym.make_vec(name, 2, "sync", vector_kwargs={"autoreset_mode": mode})
    report = arrayferry.check(envs, steps=60)
    assert report.ok
    assert report.shareable


@pytest.mark.parametrize("name", ["phys2d/CartPole-v1", "tabular/CliffWalking-v0"])
def test_environments_written_in_jax(name: str) -> None:
    pytest.importorskip("flax")
    pytest.importorskip("torch")
    env = gym.make(name, disable_env_checker=True)
    for agent, shareable in (("torch", None), ("jax", True)):
        report = arrayferry.check(env, agent, steps=20)
        assert list(report) == []
        assert report.shareable is shareable
        assert ("it is read-only" in report.not_shared) is (agent == "torch")


def test_a_reused_buffer() -> None:
    report = arrayferry.check(Reusing(), steps=5)
    assert report.ok  # nothing is wrong as long as arrays are private
    assert {one.severity for one in report} == {"info"}
    assert report.shareable is False
    assert {one.severity for one in report.sharing if one.kind == "environment-wrote"} == {"error"}
    assert report.verdict == "safe as wrapped; not safe with copy=False"
    assert "\nwith copy=False:\n  error: " in str(report)


def test_the_report_of_a_wrong_environment_is_plain_data() -> None:
    step = (np.full(3, 99, np.float32), float("nan"), False, False, {})
    report = arrayferry.check(Scripted(*[step] * 4), steps=2)
    assert not report.ok
    assert {(one.kind, one.path) for one in report} == {("outside-space", "obs"), ("nan", "reward")}
    assert [one.kind for one in report.sharing] == ["kept"]  # what is known already is not said again
    assert str(report).startswith("not safe as wrapped (1 error, 1 warning); not safe with copy=False\n")
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["ok"] is False
    assert [arrayferry.sanitizer.Finding(**one) for one in plain["findings"]] == list(report)
    assert {field.name for field in dataclasses.fields(report)} <= set(plain)
    assert (
        "error: reward, step 1: it is NaN (2 times); look at the reward's formula" in str(report).splitlines()
    )


def test_a_refused_leaf_is_a_finding() -> None:
    jnp = pytest.importorskip("jax.numpy")
    assert jnp is not None
    big = spaces.Box(0, 2**60, (1,), np.int64)
    env = Counter(show=lambda count: np.array([2**40 + count]), observation_space=big)
    report = arrayferry.check(env, "jax", steps=5)
    assert [(one.kind, one.path, one.step) for one in report] == [("refused", "obs", 0)]
    assert "does not fit" in report.findings[0].message
    assert not report.ok
    assert report.not_shared or report.shareable is False


def test_memory_that_cannot_be_shared() -> None:
    pytest.importorskip("torch")
    flipped = Counter(show=lambda count: np.zeros(3, np.float32)[::-1])
    report = arrayferry.check(flipped, "torch", steps=5)
    assert report.ok
    assert report.shareable is None
    assert report.verdict.startswith("safe as wrapped; copy=False is not possible: obs: ")
    assert report.not_shared.startswith("obs: ")
    assert "strides are negative" in report.not_shared


def test_an_environment_that_raises_only_with_shared_memory() -> None:
    pytest.importorskip("jax")

    class Clips(Recorder):
        def step(self, action: Any) -> Any:
            np.clip(action, -1, 1, out=action)
            return 1, 0.0, False, False, {}  # nothing that could not be shared

        def reset(self, **kwargs: Any) -> Any:
            return 1, {}

    env = Clips()
    env.observation_space = spaces.Discrete(3)
    report = arrayferry.check(env, "jax", steps=3)
    assert report.ok
    assert [one.kind for one in report.sharing] == ["raised"]
    assert "read-only" in report.sharing[0].message
    assert report.shareable is False


def test_exceptions_of_the_environment_are_raised() -> None:
    trouble = ZeroDivisionError("its own")
    with pytest.raises(ZeroDivisionError) as raised:
        arrayferry.check(Scripted(trouble), steps=3)
    assert raised.value is trouble


def test_the_same_seed_takes_the_same_steps() -> None:
    seen: list[list[Any]] = []
    for _ in range(2):
        env = Recorder()
        arrayferry.check(env, steps=10, seed=5)
        seen.append([action.tolist() for action in env.actions])
    assert seen[0] == seen[1]
    assert seen[0][:10] == seen[0][10:]  # both runs are the same, too


def test_options_reach_the_wrapper() -> None:
    pytest.importorskip("torch")
    report = arrayferry.check(Counter(), "torch", steps=5, copy=True, dtypes={"float32": "float64"})
    assert report.shareable is None
    assert report.steps == 5
    with pytest.raises(arrayferry.errors.UnsupportedError, match="did you mean dtypes"):
        arrayferry.check(Counter(), "torch", dtype={"float32": "float64"})
    with pytest.raises(arrayferry.errors.UnsupportedError, match="dense_final is not an option for check"):
        arrayferry.check(Counter(), "torch", dense_final=True)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Graph(BOX, None),
        spaces.Sequence(BOX),
        spaces.Sequence(BOX, stack=True),
        spaces.OneOf([BOX, spaces.Discrete(2)]),
    ],
    ids=["graph", "sequence", "stack", "one_of"],
)
def test_members_of_any_form_are_members(space: Any) -> None:
    space.seed(1)
    env = Counter(show=lambda count: {"x": space.sample()}, observation_space=spaces.Dict(x=space))
    assert list(arrayferry.check(env, steps=50)) == []


# --- an oracle: what happens without the sanitizer says what it should find


def arrays_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [array for one in value for array in arrays_of(one)]
    return [value] if isinstance(value, np.ndarray) else []


def episode(env: Any, *, writes: bool) -> tuple[list[Any], list[Any]]:
    """Copies of all observations, and the observations themselves, of an agent that may write into them."""
    env.action_space.seed(1)
    held = [env.reset(seed=1)[0]]
    copies = [[array.copy() for array in arrays_of(held[0])]]
    for _ in range(30):
        for array in arrays_of(held[-1]) if writes else ():
            array += 1
        held.append(env.step(env.action_space.sample())[0])
        copies.append([array.copy() for array in arrays_of(held[-1])])
    return copies, [arrays_of(obs) for obs in held]


STACKS: dict[str, Any] = {
    "bare": lambda env: env,
    "stacked": lambda env: gym.wrappers.FrameStackObservation(env, 3),
    "reshaped": lambda env: gym.wrappers.ReshapeObservation(env, (1, *env.observation_space.shape)),
    "flipped": lambda env: gym.wrappers.TransformObservation(env, lambda obs: obs[::-1], None),
    "delayed": lambda env: gym.wrappers.DelayObservation(env, 2),
    "with_time": lambda env: gym.wrappers.TimeAwareObservation(env, flatten=False),
    "vector": lambda env: gym.vector.SyncVectorEnv([lambda: env]),
    "vector_shared": lambda env: gym.vector.SyncVectorEnv([lambda: env], copy=False),
}


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("name", ["MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1"])
@pytest.mark.filterwarnings("ignore::arrayferry.sanitizer.SanitizerWarning")
def test_findings_agree_with_what_happens_unwatched(name: str, stack: str) -> None:
    def make(sanitize: bool) -> Any:
        return arrayferry.wrap(STACKS[stack](gym.make(name)), "numpy", copy=False, sanitize=sanitize)

    def found_in(env: Any) -> set[str]:
        return {finding.kind for finding in arrayferry.findings(env)}

    reader, writer = make(sanitize=True), make(sanitize=True)
    quiet, held = episode(make(sanitize=False), writes=False)
    assert repr(episode(reader, writes=False)[0]) == repr(quiet)
    overwritten = any(np.any(a != b) for one, other in zip(quiet, held) for a, b in zip(one, other))
    assert ("environment-wrote" in found_in(reader)) is overwritten
    assert "agent-wrote" not in found_in(reader)
    disturbed = repr(episode(make(sanitize=False), writes=True)[0]) != repr(quiet)
    episode(writer, writes=True)
    # A vector holds its buffer, and fills it before it reads it: to write there does no harm in this order.
    assert ("agent-wrote" in found_in(writer)) is (disturbed or stack == "vector_shared")


class Fading(Counter):
    """Is sound in its first episode only, which never ends."""

    def __init__(self, spoilt: str) -> None:
        super().__init__(length=10**9)
        self.spoilt, self.episodes = spoilt, 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.episodes += 1
        obs, info = super().reset(seed=seed)
        return np.full(3, np.nan, np.float32) if self.is_spoilt("reset") else obs, info

    def step(self, action: Any) -> Any:
        obs, _, *rest = super().step(action)
        return obs * 0, np.nan if self.is_spoilt("step") else 0.0, *rest

    def is_spoilt(self, name: str) -> bool:
        return name == self.spoilt and self.episodes % 2 == 0


@pytest.mark.parametrize("spoilt", ["reset", "step"])
def test_a_second_episode_is_looked_at_even_if_the_first_never_ends(spoilt: str) -> None:
    report = arrayferry.check(Fading(spoilt), "numpy", steps=20, copy=True)
    assert [(one.kind, one.path) for one in report if one.severity == "error"] == [
        ("nan", "obs" if spoilt == "reset" else "reward")
    ]
    assert report.steps == 20


@pytest.mark.parametrize("steps", [0, -1, 2.5, None])
def test_a_check_without_steps_is_refused(steps: Any) -> None:
    """It would find nothing, and call that safe."""
    with pytest.raises(arrayferry.errors.OptionError, match=f"steps={steps} is not valid"):
        arrayferry.check("CartPole-v1", steps=steps)
