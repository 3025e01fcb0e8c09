"""The sanitizer changes nothing: no value, no trajectory, no exception; and it can be saved and copied."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import warnings
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from hypothesis import given, settings
from hypothesis import strategies as st

import arrayferry
from arrayferry.sanitizer import Sanitizer, VectorSanitizer
from helpers import all_spaces
from helpers.compare import assert_same_form
from helpers.envs import BOX, Counter, Recorder, Reusing, Scripted


class Samples(gym.Env[Any, Any]):
    """Returns members of a space, in a way that is up to `habit`."""

    def __init__(self, name: str, habit: str, seed: int) -> None:
        self.observation_space, self.action_space = (
            all_spaces.make(name, seed),
            all_spaces.make(name, seed + 1),
        )
        self.habit, self.last = habit, None

    def observe(self) -> Any:
        if self.habit == "same" and self.last is not None:
            return self.last
        new = self.observation_space.sample()
        if self.habit == "fill" and isinstance(new, np.ndarray) and self.last is not None:
            self.last[...] = new
        elif self.habit in ("hold", "fill", "same"):
            self.last = new
        return self.last if self.habit == "fill" else new

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observe(), {"noise": self.np_random.random(3), "last": self.last}

    def step(self, action: Any) -> Any:
        done = bool(self.np_random.random() < 0.3)
        return self.observe(), self.np_random.random(), done, False, {"action": action}


def quietly(call: Any, *args: Any) -> Any:
    """The result, or the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args)
        except Exception as error:
            return type(error), str(error)


@settings(max_examples=300)
@given(
    name=st.sampled_from(all_spaces.NAMES),
    habit=st.sampled_from(["new", "hold", "fill", "same"]),
    copies=st.sampled_from([None, True, False]),
    agent=st.sampled_from(["numpy", "torch"]),
    seed=st.integers(0, 1000),
)
def test_values_are_the_same_bit_by_bit(name: str, habit: str, copies: Any, agent: str, seed: int) -> None:
    pytest.importorskip(agent)
    bare, watched = (
        arrayferry.wrap(Samples(name, habit, seed), agent, copy=copies, sanitize=on) for on in (False, True)
    )
    for env in (bare, watched):
        env.action_space.seed(seed)
    calls: list[Any] = [lambda env: env.reset(seed=seed)]
    calls += [lambda env: env.step(env.action_space.sample())] * 4 + [lambda env: env.reset()]
    for number, call in enumerate(calls):
        one, other = quietly(call, bare), quietly(call, watched)
        assert_same_form(other, one, f"{number}")
    # They are members of their space, in every habit: so there is nothing wrong but writes to shared memory.
    wrong = {finding.kind for finding in arrayferry.findings(watched) if finding.severity != "info"}
    assert wrong <= ({"environment-wrote"} if habit == "fill" and copies is False else set())


@pytest.mark.parametrize("agent", ["numpy", "torch", "jax"])
def test_trajectories_are_the_same(agent: str) -> None:
    pytest.importorskip(agent)
    for name in ("CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0", "Taxi-v4", "Blackjack-v1"):
        bare, watched = (arrayferry.wrap(gym.make(name), agent, sanitize=on) for on in (False, True))
        bare.action_space.seed(3)
        assert_same_form(watched.reset(seed=3), bare.reset(seed=3))
        for number in range(60):
            action = bare.action_space.sample()
            got, want = watched.step(action), bare.step(action)
            assert_same_form(got, want, f"{name} {number}")
            if want[2] or want[3]:
                assert_same_form(watched.reset(), bare.reset())


VECTORS: dict[str, dict[str, Any]] = {
    **{mode.name: {"vector_kwargs": {"autoreset_mode": mode}} for mode in gym.vector.AutoresetMode},
    "native": {"vectorization_mode": "vector_entry_point"},
    "workers": {"vectorization_mode": "async", "vector_kwargs": {"context": "spawn"}},
}


@pytest.mark.parametrize("kind", VECTORS)
def test_trajectories_of_vectors_are_the_same(kind: str) -> None:
    pytest.importorskip("torch")
    options = {"vectorization_mode": "sync", **VECTORS[kind]}
    bare, watched = (
        arrayferry.wrap(gym.make_vec("CartPole-v1", 3, **options), "torch", sanitize=on)
        for on in (False, True)
    )
    bare.action_space.seed(3)
    assert_same_form(watched.reset(seed=3), bare.reset(seed=3))
    for number in range(80):
        action = bare.action_space.sample()
        got, want = watched.step(action), bare.step(action)
        assert_same_form(got, want, str(number))
        done = (want[2] | want[3]).numpy()
        if kind == "DISABLED" and done.any():
            assert_same_form(*(env.reset(options={"reset_mask": done}) for env in (watched, bare)))
    assert list(arrayferry.findings(watched)) == []
    bare.close()
    watched.close()


def test_actions_and_options_arrive_unchanged() -> None:
    plain, watched = Recorder(), Recorder()
    for env, on in ((plain, False), (watched, True)):
        wrapped = arrayferry.wrap(env, "numpy", sanitize=on)
        wrapped.reset(seed=4, options={"a": np.ones(2)})
        wrapped.step(np.arange(3.0))
        wrapped.step([1, 2, 3])
    assert_same_form(watched.actions, plain.actions)
    assert_same_form(watched.resets, plain.resets)


@pytest.mark.parametrize("agent", ["numpy", "torch"])
def test_fresh_memory_is_still_taken_over(agent: str) -> None:
    """An array that nobody holds is not held by the sanitizer either."""
    pytest.importorskip(agent)
    addresses: list[int] = []

    def show(count: int) -> Any:
        array = np.full(3000, count, np.float32)  # more bytes than those that are copied for torch
        addresses.append(array.ctypes.data)
        return array

    space = spaces.Box(-np.inf, np.inf, (3000,))
    env = arrayferry.wrap(Counter(show=show, observation_space=space), agent, sanitize=True)
    obs, _ = env.reset()
    where = obs.ctypes.data if agent == "numpy" else obs.data_ptr()
    assert (where == addresses[0]) is arrayferry._core.ownership.REFCOUNTS_RELIABLE


# --- exceptions


class Custom(Exception):
    pass


def test_exceptions_of_the_environment_pass_unchanged() -> None:
    class Fails(Reusing):
        failing = False

        def step(self, action: Any) -> Any:
            result = super().step(action)
            if self.failing:
                raise Custom("in the middle")
            return result

    for copies in (None, False):
        env = arrayferry.wrap(Fails(), "numpy", copy=copies, sanitize="raise")
        env.reset()
        env.unwrapped.failing = True
        with pytest.raises(Custom, match="in the middle") as raised:
            env.step(np.ones(2, np.float32))
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None
        env.unwrapped.failing = False
        env.reset()  # what it wrote before it failed is nobody's fault
        assert arrayferry.findings(env).ok


@pytest.mark.parametrize(
    "step",
    [None, 7, (), (1, 2, 3, {}), [np.zeros(3, np.float32), 0.0, False, False, {}]],
    ids=["none", "number", "empty", "four", "list"],
)
def test_malformed_results_of_step_pass_unchanged(step: Any) -> None:
    results = [
        quietly(lambda env: (env.reset(), env.step(1)), env)
        for env in (arrayferry.wrap(Scripted(step), "numpy", sanitize=on) for on in (False, True))
    ]
    assert_same_form(results[1], results[0])


def test_errors_of_the_conversion_are_the_same() -> None:
    jax = pytest.importorskip("jax")
    loop: list[Any] = []
    loop.append(loop)
    deleted = jax.numpy.zeros(3)
    deleted.delete()
    for bad in (loop, deleted, {"a": deleted}):
        results = [
            quietly(arrayferry.wrap(Scripted(reset=(bad, {})), "numpy", sanitize=on).reset)
            for on in (False, True)
        ]
        assert results[0][0].__module__ == "arrayferry.errors"
        assert results[1] == results[0]


def test_a_space_that_raises_is_a_finding() -> None:
    class Moody(spaces.Space[Any]):
        def contains(self, x: Any) -> bool:
            raise Custom("not today")

    env = arrayferry.wrap(Counter(observation_space=Moody()), "numpy", sanitize=True)
    with pytest.warns(
        arrayferry.sanitizer.SanitizerWarning, match=r"contains\(\) of its space raised Custom: not today"
    ):
        env.reset()
    env.step(1)


def test_a_failure_of_the_sanitizer_is_an_info(monkeypatch: pytest.MonkeyPatch) -> None:
    env = arrayferry.wrap(Counter(), "numpy", sanitize="raise")
    inner = env.env
    monkeypatch.setattr(inner._writes, "returned", lambda leaves: 1 / 0)
    env.reset()
    env.step(1)
    (finding,) = arrayferry.findings(env)
    assert (finding.kind, finding.severity, finding.times) == ("unwatched", "info", 2)
    assert "ZeroDivisionError" in finding.message
    report = arrayferry.findings(env)
    assert not report  # nobody knows
    assert report.verdict == "not safe as wrapped (something could not be examined)"


# --- saving


@pytest.mark.parametrize("mode", [True, "raise"])
def test_a_spec_rebuilds_the_sanitizer(mode: Any) -> None:
    env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy", copy=False, sanitize=mode)
    text = env.spec.to_json()
    recorded = json.loads(text)["additional_wrappers"][0]
    assert recorded["kwargs"] == {"shared": True, "on_finding": "raise" if mode == "raise" else "warn"}
    for spec in (env.spec, EnvSpec.from_json(text)):
        again = gym.make(spec)
        assert type(again.env) is Sanitizer
        assert again.env._saved_kwargs == env.env._saved_kwargs
        assert_same_form(again.reset(seed=1), env.reset(seed=1))
        assert again.spec == env.spec
    # Another one on top would see the same twice.
    with arrayferry.sanitize():
        assert [type(one).__name__ for one in layers(gym.make(env.spec))].count("Sanitizer") == 1


def layers(env: Any) -> Any:
    while env is not None:
        yield env
        env = vars(env).get("env")


WAYS = {
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "cloudpickle": lambda env: cloudpickle.loads(cloudpickle.dumps(env)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("copies", [None, False])
def test_a_copied_environment_keeps_its_findings(way: str, copies: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", arrayferry.sanitizer.SanitizerWarning)
        env = arrayferry.wrap(Reusing(), "numpy", copy=copies, sanitize=True)
        env.reset()
        env.step(np.ones(2, np.float32))
        twin = WAYS[way](env)
        assert arrayferry.findings(twin) == arrayferry.findings(env)
        for _ in range(3):
            action = np.ones(2, np.float32)
            assert_same_form(twin.step(action.copy()), env.step(action))
        assert {f.path for f in arrayferry.findings(twin)} == {f.path for f in arrayferry.findings(env)}
        assert arrayferry.findings(twin).steps == 4


def test_a_copied_environment_watches_no_memory_of_the_original() -> None:
    """The copy's memory is other memory: what was lent belongs to the original."""
    env = arrayferry.wrap(gym.make("MountainCarContinuous-v0"), "numpy", copy=False, sanitize="raise")
    env.reset(seed=1)
    for _ in range(4):
        env.step(np.ones(1, np.float32))
    twin = copy.deepcopy(env)
    obs, *_ = env.step(np.ones(1, np.float32))
    obs *= 2
    twin.step(np.ones(1, np.float32))
    with pytest.raises(arrayferry.sanitizer.SanitizerError, match="the agent wrote"):
        env.step(np.ones(1, np.float32))


@pytest.mark.needs("gymnasium>=1.4")  # an older one's have a generator
@pytest.mark.parametrize("way", ["cloudpickle", "deepcopy"])
def test_a_vector_environment_can_be_copied(way: str) -> None:
    env = arrayferry.wrap(gym.make_vec("CartPole-v1", 2, "sync"), "numpy", sanitize=True)
    env.reset(seed=1)
    twin = WAYS[way](env)
    assert type(twin.env) is VectorSanitizer
    for _ in range(20):
        action = np.array([0, 1])
        assert_same_form(twin.step(action), env.step(action))


def test_arrays_are_released_after_a_few_steps() -> None:
    class Token(np.ndarray):
        alive = 0

        def __new__(cls) -> Any:
            cls.alive += 1
            return np.zeros(3, np.float32).view(cls)

        def __del__(self) -> None:
            type(self).alive -= 1

    env = Sanitizer(Counter(1000, lambda count: Token()))
    env.reset()
    for _ in range(50):
        env.step(1)
    gc.collect()
    assert Token.alive <= 5


# --- vectors


def test_a_vector_that_hands_out_its_own_buffer() -> None:
    make = [lambda: Counter(100, lambda count: np.full(3, count / 100, np.float32))] * 2
    for shares, kinds in ((False, {"environment-wrote"}), (True, {"environment-wrote", "kept"})):
        envs = gym.vector.SyncVectorEnv(make, copy=False)
        env = arrayferry.wrap(envs, "numpy", copy=False if shares else None, sanitize=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if shares else "error")
            env.reset()
            for _ in range(3):
                env.step(np.array([1, 1]))
        assert {(f.kind, f.path) for f in arrayferry.findings(env)} == {(kind, "obs") for kind in kinds}
        assert arrayferry.findings(env).ok is not shares


def test_masks_of_vector_infos_are_respected() -> None:
    class Masked(gym.vector.VectorEnv[Any, Any, Any]):
        num_envs = 2
        observation_space = spaces.Box(-10, 10, (2, 3), np.float32)
        single_observation_space = BOX
        action_space, single_action_space = spaces.MultiDiscrete([2, 2]), spaces.Discrete(2)
        mask = np.array([True, False])

        def reset(self, **kwargs: Any) -> Any:
            return np.zeros((2, 3), np.float32), {}

        def step(self, actions: Any) -> Any:
            info = {"x": np.array([1.0, np.nan]), "_x": self.mask, "deep": {"y": np.full((2, 2), np.nan)}}
            info["deep"]["y"][self.mask] = 0
            info["deep"]["_y"] = self.mask
            false = np.zeros(2, bool)
            return np.zeros((2, 3), np.float32), np.zeros(2), false, false.copy(), info

    env = Masked()
    wrapped = arrayferry.wrap(env, "numpy", sanitize=True)
    wrapped.reset()
    wrapped.step(np.array([0, 0]))
    assert list(arrayferry.findings(wrapped)) == []
    env.mask = np.array([True, True])
    with pytest.warns(arrayferry.sanitizer.SanitizerWarning, match=r'info\["x"\], step 2: \[1\] is NaN'):
        wrapped.step(np.array([0, 0]))


def test_final_observations_cross_unharmed() -> None:
    make = [lambda: Counter(2), lambda: Counter(3)]
    mode = gym.vector.AutoresetMode.SAME_STEP
    bare, watched = (
        arrayferry.wrap(
            gym.vector.SyncVectorEnv(make, autoreset_mode=mode), "numpy", sanitize=on, dense_final=True
        )
        for on in (False, True)
    )
    assert_same_form(watched.reset(), bare.reset())
    for _ in range(8):
        action = np.array([1, 1])
        assert_same_form(watched.step(action), bare.step(action))
    assert arrayferry.findings(watched).ok


def test_call_and_attributes_of_a_vector() -> None:
    env = arrayferry.wrap(gym.vector.SyncVectorEnv([Counter, Counter]), "numpy", sanitize=True)
    env.reset()
    env.set_attr("length", [5, 6])
    assert env.get_attr("length") == (5, 6)
    assert env.call("length") == (5, 6)
    assert env.num_envs == 2
