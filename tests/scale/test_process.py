"""`ProcessVectorEnv` returns what `SyncVectorEnv` returns, and goes on when a worker dies."""

from __future__ import annotations

import copy
import math
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.scale import ProcessVectorEnv

if sys.platform == "win32":
    pytest.skip("workers start with forkserver here, and are stopped by signals", allow_module_level=True)

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED

OBSERVATIONS = {
    "box": spaces.Box(-1, 1, (2, 3), np.float32),
    "discrete": spaces.Discrete(7, start=-2),
    "multi": spaces.MultiDiscrete([3, 4]),
    "dict": spaces.Dict(z=spaces.Box(0, 255, (2,), np.uint8), a=spaces.Tuple([spaces.Discrete(3)])),
    "tuple": spaces.Tuple([spaces.MultiBinary(3), spaces.Box(-1, 1, (), np.float64)]),
    "text": spaces.Text(5),
    "graph": spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
    "sequence": spaces.Dict(s=spaces.Sequence(spaces.Discrete(5)), b=spaces.Box(-1, 1, (2,))),
}
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "dict": spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,))),
    "text": spaces.Text(4),
}


class Toy(gym.Env[Any, Any]):
    """Observes random members of its space; its episodes have different lengths, its infos different keys."""

    def __init__(self, index: int = 0, observes: str = "box", acts: str = "discrete") -> None:
        self.observation_space, self.action_space = OBSERVATIONS[observes], ACTIONS[acts]
        self.index, self.seen = index, []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count, self.options, self.last_seed = 0, options, seed
        return self._observe(), {"start": self.index} if self.index % 2 else {}

    def step(self, action: Any) -> Any:
        self.seen.append(action)
        if isinstance(action, np.ndarray) and action.flags.writeable:
            action += 0  # an environment may write to what it is given
        if isinstance(action, (int, np.integer)) and action == 2:
            self._misbehave()
        self.count += 1
        is_over = self.count == 3 + self.index
        infos = (
            {"count": self.count, "part": {"index": self.index, "row": np.arange(2)}} if self.index else {}
        )
        return (
            self._observe(),
            self.count / 3,
            is_over and not self.index % 2,
            is_over and self.index % 2 == 1,
            infos,
        )

    def _observe(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def _misbehave(self) -> None:
        """Nothing, here."""

    def last_actions(self) -> Any:
        return self.seen[-1]


class Odd(Toy):
    """Shows what is not quite of its space's form, and infos whose types differ between environments."""

    def _observe(self) -> Any:
        obs = super()._observe()
        return obs.astype(np.float16) if self.index % 2 else obs.tolist()

    def step(self, action: Any) -> Any:
        *result, infos = super().step(action)
        self.infos = {
            "mixed": [0.5, 1, 2.7, None][(self.index + self.count) % 3],
            "text": np.array(["ab", "c"]),
            "objects": np.array([None, self.index], object),
            "part": {"deep": {"n": np.float32(self.index)}},
        }
        return *result, self.infos if self.index else infos

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if hasattr(self, "infos"):
            self.infos["mixed"] = -1  # of a dict that was returned before
        return super().reset(seed=seed, options=options)


class Dies(Toy):
    """Kills its process with action 2, if it is the environment to do so."""

    def _misbehave(self) -> None:
        if self.index == 1:
            os.kill(os.getpid(), signal.SIGKILL)


class Hangs(Toy):
    def doze(self, seconds: float) -> None:
        time.sleep(seconds if self.index == 1 else 0)

    def _misbehave(self) -> None:
        if self.index == 1:
            time.sleep(1000)


class Raises(Toy):
    def _misbehave(self) -> None:
        if self.index == 1:
            raise KeyError("a wheel is off")


def fns(count: int = 4, kind: type[Toy] = Toy, **options: Any) -> list[Any]:
    return [lambda index=index: kind(index, **options) for index in range(count)]


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Any] = []

    def make(
        env_fns: Any = None, workers: int = 2, context: str = "forkserver", **options: Any
    ) -> ProcessVectorEnv:
        made.append(ProcessVectorEnv(env_fns or fns(), workers=workers, context=context, **options))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


def assert_equal(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for a, b in zip(one, other):
            assert_equal(a, b)
    elif isinstance(one, np.ndarray) and one.dtype == object:
        assert_equal(list(one), list(other))
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other or one is other


def compare(ours: ProcessVectorEnv, theirs: SyncVectorEnv, steps: int = 25) -> None:
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata == theirs.metadata
    assert_equal(ours.reset(seed=11), theirs.reset(seed=11))
    theirs.action_space.seed(0)
    for _ in range(steps):
        actions = theirs.action_space.sample()
        mine, expected = ours.step(actions), theirs.step(actions)
        assert_equal(mine, expected)
        if theirs.autoreset_mode is DISABLED and (mask := expected[2] | expected[3]).any():
            options = {"reset_mask": mask, "level": 3}
            assert_equal(ours.reset(options=dict(options)), theirs.reset(options=dict(options)))
    assert_equal(ours.call("last_actions"), theirs.call("last_actions"))


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
@pytest.mark.parametrize(
    "observes",
    [
        # before 1.4, which text a seed gives depends on the process
        pytest.param(name, marks=pytest.mark.needs("gymnasium>=1.4") if name == "text" else ())
        for name in OBSERVATIONS
    ],
)
def test_it_equals_sync_for_every_space_and_mode(make: Any, observes: str, mode: AutoresetMode) -> None:
    env_fns = fns(5, observes=observes)
    compare(make(env_fns, autoreset_mode=mode), SyncVectorEnv(env_fns, autoreset_mode=mode))


@pytest.mark.parametrize("acts", ACTIONS)
def test_it_equals_sync_for_every_action_space(make: Any, acts: str) -> None:
    env_fns = fns(3, acts=acts)
    compare(make(env_fns), SyncVectorEnv(env_fns))


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 9, None])
def test_it_equals_sync_for_any_number_of_workers(make: Any, workers: int | None) -> None:
    compare(make(workers=workers), SyncVectorEnv(fns()))


def test_it_equals_sync_in_workers_that_are_spawned(make: Any) -> None:
    compare(make(context="spawn"), SyncVectorEnv(fns()))


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_it_equals_sync_for_odd_observations_and_infos(make: Any, mode: AutoresetMode, workers: int) -> None:
    env_fns = fns(5, Odd)
    compare(make(env_fns, workers, autoreset_mode=mode), SyncVectorEnv(env_fns, autoreset_mode=mode))


def test_an_observation_of_another_shape_is_refused_as_by_sync(make: Any) -> None:
    class Grows(Toy):
        def _observe(self) -> Any:
            return np.zeros((1, 3), np.float32)  # would fit by broadcasting

    with pytest.raises(ValueError, match="shape"):
        SyncVectorEnv(fns(2, Grows)).reset()
    with pytest.raises(ValueError, match="shape"):
        make(fns(2, Grows)).reset()


def test_a_final_observation_is_what_the_environment_returned(make: Any) -> None:
    class OneBuffer(Toy):
        buffer = np.zeros((2, 3), np.float32)

        def _observe(self) -> Any:
            self.buffer[:] = self.count
            return self.buffer

    envs = make(fns(2, OneBuffer), autoreset_mode=SAME_STEP)
    envs.reset(seed=0)
    for _ in range(3):
        obs, _, _, _, infos = envs.step(np.zeros(2, int))
    assert (obs[0] == 0).all()
    assert (infos["final_obs"][0] == 3).all()


@pytest.mark.parametrize("mask", [None, np.ones(4, bool)])
@pytest.mark.parametrize("options", [None, {}, {"level": 2}])
def test_options_arrive_as_with_sync(make: Any, options: Any, mask: Any) -> None:
    ours, theirs = make(), SyncVectorEnv(fns())
    if mask is not None:
        options = {**(options or {}), "reset_mask": mask}
    given = dict(options) if options is not None else None
    ours.reset(options=options)
    assert str(options) == str(given)  # untouched
    theirs.reset(options=given)
    assert ours.get_attr("options") == theirs.get_attr("options")


def test_seeds_and_options(make: Any) -> None:
    ours, theirs = make(), SyncVectorEnv(fns())
    for seed in (None, 3, [1, 2, 3, None]):
        ours.reset(seed=seed, options={"level": 2})
        theirs.reset(seed=seed, options={"level": 2})
        assert ours.get_attr("last_seed") == theirs.get_attr("last_seed")
        assert ours.get_attr("options") == ({"level": 2},) * 4
    ours.reset(seed=np.int64(3))
    assert ours.get_attr("last_seed") == (3, 4, 5, 6)
    with pytest.raises(arrayferry.FerryError, match="2 seeds for 4 environments"):
        ours.reset(seed=[1, 2])


def test_what_it_returns_is_the_caller_s(make: Any) -> None:
    envs = make()
    obs, _ = envs.reset(seed=0)
    kept = obs.copy()
    results = [envs.step(np.zeros(4, int)) for _ in range(4)]
    assert np.array_equal(obs, kept)
    before = [value.copy() for value in results[0][:4]]
    for value in results[0][:4]:
        assert value.flags.owndata
        value[...] = 1
    again = envs.step(np.zeros(4, int))
    assert not np.array_equal(again[0], results[0][0])
    assert not all(np.array_equal(a, b) for a, b in zip(before, results[0]))


def test_wrapped_it_is_not_copied_twice(make: Any) -> None:
    torch = pytest.importorskip("torch")
    envs = arrayferry.wrap(make(), "torch")
    envs.reset(seed=0)
    obs, reward, *_ = envs.step(torch.zeros(4, dtype=torch.int64))
    assert obs.shape == (4, 2, 3)
    assert reward.dtype == torch.float64
    explained = arrayferry.explain(make(), "torch", steps=5)
    assert "taken over" in str(explained) or "shared" in str(explained)


def test_attributes_and_calls(make: Any) -> None:
    envs = make()
    envs.reset(seed=0)
    assert envs.get_attr("index") == (0, 1, 2, 3)
    envs.set_attr("index", [3, 2, 1, 0])
    assert envs.get_attr("index") == (3, 2, 1, 0)
    envs.set_attr("index", 5)
    assert envs.call("index") == (5,) * 4
    with pytest.raises(AttributeError, match="no_such"):
        envs.get_attr("no_such")
    with pytest.raises(ValueError, match="1 values for 4"):
        envs.set_attr("index", [1])
    assert envs.step(np.zeros(4, int))[1].shape == (4,)


def test_get_attr_reads_and_never_calls(make: Any) -> None:
    class Counts(Toy):
        calls = 0

        def reset(self, **options: Any) -> Any:
            self.calls += 1
            return super().reset(**options)

    envs = make(fns(kind=Counts))
    envs.reset(seed=0)
    assert all(callable(method) for method in envs.get_attr("reset"))
    envs.set_attr("scale", lambda x: 2 * x)
    assert [scale(3) for scale in envs.get_attr("scale")] == [6] * 4
    assert envs.get_attr("calls") == (1,) * 4


def test_some_environments_can_be_asked_and_set(make: Any) -> None:
    envs = make(fns(5), workers=2)
    envs.reset(seed=0)
    assert envs.run_on([4, 0, -2, 0], lambda env, much: env.unwrapped.index * much, 10) == (40, 0, 30, 0)
    assert envs.run_on([], lambda env: env) == ()

    def count(env: Any) -> int:
        env.calls = getattr(env, "calls", 0) + 1
        return env.unwrapped.index * 10 + env.calls

    assert envs.run_on([4, 0, 4, 1, 0, -1], count) == (41, 1, 42, 11, 2, 43)  # each time that it is named
    assert envs.run_on([1, 2], lambda env, kind: isinstance(env, kind), Toy) == (True, True)
    envs.set_attr_of([3, 1], "level", [30, 10])
    envs.set_attr_of([0, 2, 4], "level", 5)
    assert envs.get_attr("level") == (5, 10, 5, 30, 5)
    with pytest.raises(IndexError):
        envs.run_on([5], lambda env: env)
    with pytest.raises(ValueError, match="1 values for 2"):
        envs.set_attr_of([0, 1], "level", [1])


def test_seeds_and_generators_are_the_environments_own(make: Any) -> None:
    ours, theirs = make(), SyncVectorEnv(fns())
    for envs in (ours, theirs):
        envs.reset(seed=3)
        envs.reset()
    assert ours.np_random_seed == theirs.np_random_seed == (3, 4, 5, 6)
    assert [one.random() for one in ours.np_random] == [one.random() for one in theirs.np_random]


def test_each_environment_has_one_action(make: Any) -> None:
    envs = make()
    envs.reset(seed=0)
    for actions in (np.zeros(3, int), np.zeros(5, int), [0, 0]):
        with pytest.raises(ValueError, match="actions for 4 environments"):
            envs.step(actions)
    with pytest.raises(TypeError):
        envs.step(0)
    assert envs.step([0, 1, 0, 1])[1].tolist() == [1 / 3] * 4


def test_masks_are_checked(make: Any) -> None:
    envs = make(autoreset_mode=DISABLED)
    with pytest.raises(arrayferry.FerryError, match="before the first full one"):
        envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    envs.reset(options={"reset_mask": np.ones(4, bool)})
    for mask in (np.ones(3, bool), np.ones((1, 4), bool), np.zeros(4, bool)):
        with pytest.raises(ValueError, match="reset_mask"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="int64"):
        envs.reset(options={"reset_mask": np.ones(4, int)})
    envs.reset(options={"reset_mask": [True] * 4})


def test_a_step_after_the_end_is_refused_without_autoreset(make: Any) -> None:
    envs = make(autoreset_mode=DISABLED)
    envs.reset(seed=0)
    for _ in range(3):
        envs.step(np.zeros(4, int))
    with pytest.raises(arrayferry.FerryError, match="whose episode is over"):
        envs.step(np.zeros(4, int))


@pytest.mark.parametrize("mode", ["rgb_array", None])
def test_frames_and_modes(make: Any, mode: str | None) -> None:
    pytest.importorskip("pygame")
    env_fns = [lambda: gym.make("CartPole-v1", render_mode=mode)] * 3
    ours, theirs = make(env_fns), SyncVectorEnv(env_fns)
    assert ours.render_mode == mode
    ours.reset(seed=0)
    theirs.reset(seed=0)
    if mode:
        assert_equal(ours.render(), theirs.render())
    else:
        with pytest.warns(UserWarning, match="render"):
            expected = theirs.render()
        assert ours.render() == expected


def test_calls_take_and_return_what_only_cloudpickle_knows(make: Any) -> None:
    envs = make()
    envs.set_attr("scale", lambda x: 2 * x)
    assert envs.call("scale", 4) == (8,) * 4
    envs.set_attr("held", [(lambda n=n: n) for n in range(4)])
    assert envs.call("held") == (0, 1, 2, 3)


def test_what_cannot_be_sent_changes_nothing(make: Any) -> None:
    envs = make(workers=4)
    envs.reset(seed=0)
    lock = threading.Lock()
    with pytest.raises(TypeError, match="pickle"):
        envs.set_attr("index", [0, 1, 2, lock])
    with pytest.raises(TypeError, match="pickle"):
        envs.reset(options={"lock": lock})
    with pytest.raises(TypeError, match="pickle"):
        envs.step([0, 0, 0, lock])
    _, reward, *_, infos = envs.step(np.zeros(4, int))
    assert "fault" not in infos
    assert reward.tolist() == [1 / 3] * 4
    assert envs.get_attr("index") == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("acts", "actions"),
    [
        ("box", np.linspace(-1, 1, 8).reshape(4, 2)),
        ("box", np.linspace(-1, 1, 8).reshape(4, 2).tolist()),
        ("discrete", np.array([0, 1, 0, 1], np.uint8)),
        ("discrete", [0, 1, 0, 1]),
        ("discrete", np.array([0.7, 1.2, 0, 1])),
        ("discrete", np.zeros((4, 1), int)),
        ("dict", {"a": np.array([0, 1, 0, 1], np.int8), "b": np.linspace(-1, 1, 8).reshape(4, 2)}),
    ],
)
def test_actions_arrive_as_with_sync(make: Any, acts: str, actions: Any) -> None:
    ours, theirs = make(fns(acts=acts)), SyncVectorEnv(fns(acts=acts))
    for envs in (ours, theirs):
        envs.reset(seed=0)
        envs.step(actions)
    assert_equal(ours.call("last_actions"), theirs.call("last_actions"))


def test_an_attribute_that_cannot_be_sent_is_an_error_of_its_own(make: Any) -> None:
    class Locked(Toy):
        def __init__(self, index: int) -> None:
            super().__init__(index)
            self.lock = threading.Lock()

    envs = make(fns(4, Locked))
    envs.reset(seed=0)
    with pytest.raises(TypeError, match="pickle"):
        envs.get_attr("lock")
    assert "fault" not in envs.step(np.zeros(4, int))[4]


def test_a_class_of_main_arrives_where_there_is_no_file_to_import_it_from() -> None:
    code = """
import gymnasium as gym
from arrayferry.scale import ProcessVectorEnv

class Level: pass

class Checks(gym.Wrapper):
    level = None
    def is_level(self): return isinstance(self.level, Level)

envs = ProcessVectorEnv([lambda: Checks(gym.make("CartPole-v1"))] * 2, workers=1)
envs.set_attr("level", Level())
assert envs.call("is_level") == (True, True)
assert isinstance(envs.get_attr("level")[0], Level)
envs.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_steps_overlap_with_the_caller(make: Any) -> None:
    envs = make()
    envs.reset(seed=0)
    envs.step_async(np.zeros(4, int))
    for forbidden in (lambda: envs.step_async(np.zeros(4, int)), envs.reset, lambda: envs.get_attr("index")):
        with pytest.raises(arrayferry.FerryError, match="step_wait") as caught:
            forbidden()
        assert isinstance(caught.value, gym.error.AlreadyPendingCallError)
    assert len(envs.step_wait()) == 5
    with pytest.raises(arrayferry.FerryError, match="step_async") as caught:
        envs.step_wait()
    assert isinstance(caught.value, gym.error.NoAsyncCallError)


def test_a_step_that_was_closed_is_no_fault(make: Any) -> None:
    envs = make()
    envs.reset(seed=0)
    envs.step_async(np.zeros(4, int))
    envs.close()
    with pytest.raises(gym.error.ClosedEnvironmentError, match="make new ones"):
        envs.step_wait()
    assert not any(worker._process.is_alive() for worker in envs._workers)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"workers": 0}, "at least 1"),
        ({"workers": 1.5}, "a whole number"),
        ({"workers": "2"}, "a whole number"),
        ({"context": "thread"}, "pass one of"),
        ({"step_timeout": 0}, "pass seconds"),
        ({"step_timeout": None}, "pass seconds"),
        ({"max_faults": 0}, "at least 1"),
        ({"max_faults": "3"}, "a whole number"),
        ({"autoreset_mode": "nope"}, "AutoresetMode.NEXT_STEP"),
    ],
)
def test_wrong_options_are_refused(make: Any, options: dict[str, Any], what: str) -> None:
    with pytest.raises(arrayferry.errors.OptionError, match=what):
        make(**options)


@pytest.mark.parametrize(
    ("env_fns", "what"),
    [
        (None, "env_fns is None"),
        (lambda: Toy(), "env_fns is a function"),
        (["CartPole-v1"] * 2, r"env_fns\[0\] is a str"),
        ([lambda: Toy(), Toy()], r"env_fns\[1\] is a Toy"),
        ([lambda: None], "made None"),
        ([lambda: Toy(), lambda: None], "made None"),
        ([lambda: SyncVectorEnv([Toy])], "made a SyncVectorEnv"),
    ],
)
def test_what_makes_no_environments_is_refused(env_fns: Any, what: str) -> None:
    with pytest.raises(arrayferry.errors.UnsupportedError, match=what):
        ProcessVectorEnv(env_fns, workers=2)


def test_it_may_wait_for_ever(make: Any) -> None:
    envs = make(fns(observes="text"), step_timeout=math.inf)  # which goes through the pipe
    envs.reset(seed=0)
    assert "fault" not in envs.step(np.zeros(4, int))[4]
    envs.set_attr("letter", "x" * 10_000)  # more than a pipe takes at once
    envs.close(timeout=math.inf)


def test_it_cannot_be_copied(make: Any) -> None:
    envs = make()
    for duplicate in (copy.deepcopy, pickle.dumps):
        with pytest.raises(arrayferry.errors.UnsupportedError, match="environments are in other processes"):
            duplicate(envs)


def test_a_step_before_reset_is_refused(make: Any) -> None:
    with pytest.raises(arrayferry.FerryError, match="call reset"):
        make().step(np.zeros(4, int))


def test_different_spaces_are_refused(make: Any) -> None:
    mixed = [*fns(2), lambda: Toy(2, "discrete")]
    for workers in (1, 3):
        with pytest.raises(arrayferry.errors.WorkerError, match="environment 2 has the observation space"):
            make(mixed, workers=workers)


def test_an_environment_that_cannot_be_made_says_why(make: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        make([*fns(1), lambda: 1 / 0], workers=2)


def test_what_cannot_be_pickled_says_so(make: Any) -> None:
    generator = (n for n in range(3))
    with pytest.raises(arrayferry.FerryError, match="cannot be sent to a worker"):
        make([lambda: (Toy(), generator)[0]])


# --- faults


def die(envs: Any) -> Any:
    return envs.step(np.array([0, 2, 0, 0]))


@pytest.mark.parametrize("workers", [2, 4])
def test_next_step_shows_the_last_observation_then_the_successor_s_first(make: Any, workers: int) -> None:
    envs, sync = make(fns(kind=Dies), workers), SyncVectorEnv(fns())
    envs.reset(seed=5)
    sync.reset(seed=5)
    last, *_ = envs.step(np.zeros(4, int))
    sync.step(np.zeros(4, int))
    dead = slice(0, 2) if workers == 2 else slice(1, 2)
    alive = [index for index in range(4) if index not in range(4)[dead]]

    obs, reward, terminated, truncated, infos = die(envs)
    expected = sync.step(np.zeros(4, int))
    assert np.array_equal(obs[dead], last[dead])
    assert (reward[dead] == 0).all()
    assert not terminated[dead].any()
    assert truncated[dead].all()
    assert infos["fault"].tolist() == [index not in alive for index in range(4)]
    assert "died (exit code -9)" in infos["fault_reason"][1]
    for mine, theirs in zip((obs, reward, terminated, truncated), expected):
        assert np.array_equal(mine[alive], theirs[alive])

    obs, reward, terminated, truncated, infos = envs.step(np.zeros(4, int))
    expected = sync.step(np.zeros(4, int))
    assert not np.array_equal(obs[dead], last[dead])
    assert (reward[dead] == 0).all()
    assert not truncated[dead].any()
    assert "fault" not in infos
    assert envs.get_attr("count")[1] == 0
    for mine, theirs in zip((obs, reward, terminated, truncated), expected):
        assert np.array_equal(mine[alive], theirs[alive])
    seed = int(np.random.SeedSequence([6, 1, 1]).generate_state(1)[0])
    assert envs.get_attr("last_seed")[1] == seed


def test_same_step_shows_the_successor_s_first_observation(make: Any) -> None:
    envs = make(fns(kind=Dies), 4, autoreset_mode=SAME_STEP)
    envs.reset(seed=5)
    last, *_ = envs.step(np.zeros(4, int))
    obs, reward, terminated, truncated, infos = die(envs)
    assert np.array_equal(infos["final_obs"][1], last[1])
    assert not np.array_equal(obs[1], last[1])
    assert (reward[1], terminated[1], truncated[1]) == (0, False, True)
    assert infos["fault"].tolist() == [False, True, False, False]
    assert envs.get_attr("count")[1] == 0
    assert "fault" not in envs.step(np.zeros(4, int))[4]
    assert envs.get_attr("count")[1] == 1


def test_disabled_goes_on_with_a_reset_of_the_dead(make: Any) -> None:
    envs = make(fns(kind=Dies), 2, autoreset_mode=DISABLED)
    envs.reset(seed=5)
    last, *_ = envs.step(np.zeros(4, int))
    obs, _, _, truncated, _ = die(envs)
    assert np.array_equal(obs[:2], last[:2])
    assert truncated.tolist() == [True, True, False, False]
    first, _ = envs.reset(seed=[1, 2, None, None], options={"reset_mask": truncated})
    assert np.array_equal(first[2:], obs[2:])
    assert not np.array_equal(first[:2], last[:2])
    assert envs.get_attr("last_seed")[:2] == (1, 2)
    assert not envs.step(np.zeros(4, int))[3][:2].any()


def test_disabled_needs_a_reset_of_all_that_are_lost(make: Any) -> None:
    envs = make(fns(kind=Dies), 2, autoreset_mode=DISABLED)
    envs.reset(seed=5)
    die(envs)
    envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    with pytest.raises(arrayferry.errors.UnsupportedError, match="whose episode is over"):
        envs.step(np.zeros(4, int))
    envs.reset(options={"reset_mask": np.array([False, True, False, False])})
    assert envs.step(np.zeros(4, int))[1][:2].tolist() == [1 / 3, 1 / 3]


def test_a_successor_that_dies_in_its_reset_is_told(make: Any) -> None:
    envs = make(fns(kind=Dies), 2, autoreset_mode=DISABLED, max_faults=10)
    envs.reset(seed=5)
    die(envs)
    os.kill(envs._workers[0]._process.pid, signal.SIGKILL)
    envs.reset(options={"reset_mask": np.array([True, True, False, False])})
    os.kill(envs._workers[0]._process.pid, signal.SIGKILL)
    last, infos = envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    assert infos["fault"].tolist() == [True, False, False, False]
    obs, _, _, truncated, infos = envs.step(np.zeros(4, int))  # the other one's episode was lost, too
    assert infos["fault"].tolist() == truncated.tolist() == [False, True, False, False]
    assert np.array_equal(obs[1], last[1])
    with pytest.raises(arrayferry.errors.UnsupportedError, match="whose episode is over"):
        envs.step(np.zeros(4, int))


def test_what_a_worker_has_answered_before_it_died_is_taken(make: Any) -> None:
    envs = make(workers=4)
    envs.reset(seed=0)
    worker = envs._workers[2]
    envs.step_async(np.zeros(4, int))
    while envs._block.answered[2] != worker.number:
        time.sleep(0.01)
    os.kill(worker._process.pid, signal.SIGKILL)
    worker._process.join()
    _, reward, _, _, infos = envs.step_wait()
    assert "fault" not in infos
    assert reward.tolist() == [1 / 3] * 4


class SharesInfo(Toy):
    """An environment that tells in one dict, which all of a process have."""

    told: dict[str, Any] = {"array": np.zeros(1), "nested": {}}  # noqa: RUF012

    def _tell(self) -> dict[str, Any]:
        self.told["who"] = self.told["nested"]["who"] = self.index
        self.told["array"][0] = self.index
        return self.told

    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0], self._tell()

    def step(self, action: Any) -> Any:
        return (*super().step(action)[:4], self._tell())


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_environments_may_share_what_they_tell(make: Any, workers: int) -> None:
    envs = make([lambda index=index: SharesInfo(index) for index in range(4)], workers)
    for infos in (envs.reset(seed=0)[1], envs.step(np.zeros(4, int))[4]):
        assert infos["who"].tolist() == infos["nested"]["who"].tolist() == [0, 1, 2, 3]
        assert infos["array"][:, 0].tolist() == [0, 1, 2, 3]


class DiesInSequence(Dies):
    """Observes a sequence of one array, which counts the steps."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.observation_space = spaces.Sequence(spaces.Box(-99, 99, (2,)))

    def _observe(self) -> Any:
        return (np.full(2, self.count, np.float32),)


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
def test_the_last_observation_is_not_what_the_agent_made_of_it(make: Any, mode: AutoresetMode) -> None:
    envs = make(fns(kind=DiesInSequence), 4, autoreset_mode=mode)
    envs.reset(seed=0)
    first = envs.step(np.zeros(4, int))[0]
    first[1][0][...] = 77
    obs, *_, infos = die(envs)
    last = (infos["final_obs"] if mode is SAME_STEP else obs)[1][0]
    assert last.tolist() == [1, 1]
    assert not np.shares_memory(last, first[1][0])


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
def test_a_successor_can_be_rendered(make: Any, mode: AutoresetMode) -> None:
    class Draws(Dies):
        metadata: Any = {"render_modes": ["rgb_array"]}  # noqa: RUF012
        render_mode, count = "rgb_array", None

        def render(self) -> Any:
            if self.count is None:
                raise gym.error.ResetNeeded("reset it first")
            return np.full((2, 2, 3), self.np_random_seed % 256, np.uint8)

    envs = make(fns(kind=Draws), 4, autoreset_mode=mode)
    envs.reset(seed=5)
    last, *_ = envs.step(np.zeros(4, int))
    truncated = die(envs)[3]
    frames = envs.render()
    assert len(frames) == 4
    if mode is DISABLED:
        with pytest.raises(arrayferry.errors.UnsupportedError, match="whose episode is over"):
            envs.step(np.zeros(4, int))
        others = np.array([True, False, False, False])
        assert np.array_equal(envs.reset(options={"reset_mask": others})[0][1], last[1])
        envs.reset(options={"reset_mask": truncated})
    elif mode is NEXT_STEP:
        envs.step(np.zeros(4, int))
        assert envs.get_attr("count")[1] == 0
    assert np.array_equal(envs.render()[1], frames[1])  # of the episode that was seen
    assert "fault" not in envs.step(np.zeros(4, int))[4]


def test_each_environment_is_made_once_and_in_a_worker(make: Any, tmp_path: Path) -> None:
    class Tells(Toy):
        def __init__(self, index: int) -> None:
            super().__init__(index)
            with (tmp_path / str(index)).open("a") as file:
                file.write(f"{os.getpid()} ")

    make(fns(kind=Tells))
    made = [(tmp_path / str(index)).read_text().split() for index in range(4)]
    assert [len(pids) for pids in made] == [1] * 4
    assert str(os.getpid()) not in {pid for pids in made for pid in pids}


@pytest.mark.parametrize("index", [0, 3])
def test_a_constructor_that_aborts_is_an_error(index: int) -> None:
    env_fns = [*fns()]
    env_fns[index] = os.abort
    with pytest.raises(arrayferry.errors.WorkerError, match="it ended with exit code -6"):
        ProcessVectorEnv(env_fns, workers=2)


def test_it_is_described_by_its_environments(make: Any) -> None:
    env_fns = [lambda: gym.make("CartPole-v1", render_mode="rgb_array")] * 2
    ours, theirs = make(env_fns), SyncVectorEnv(env_fns)
    assert ours.metadata == theirs.metadata
    assert ours.render_mode == theirs.render_mode == "rgb_array"
    assert ours.spec is theirs.spec is None
    assert [spec.id for spec in ours.get_attr("spec")] == ["CartPole-v1"] * 2


OWN_SPACE = """
import sys
import gymnasium as gym, numpy as np
from arrayferry.scale import ProcessVectorEnv
class OwnSpace(gym.spaces.Box):
    def __eq__(self, other):
        return isinstance(other, OwnSpace) and super().__eq__(other)
class Env(gym.Env):
    def __init__(self):
        self.observation_space, self.action_space = OwnSpace(-1, 1, (2,)), gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}
    def step(self, action):
        return np.ones(2, np.float32), 1.0, False, False, {}
gym.register("Own-v0", Env, disable_env_checker=True, order_enforce=False)
if __name__ == "__main__":
    by_value, by_name = [Env, lambda: Env()], [lambda: gym.make("Own-v0").unwrapped] * 2
    for env_fns, workers in [(by_value, 1), (by_value, 2), (by_name, 2)]:
        envs = ProcessVectorEnv(env_fns, workers=workers, context=sys.argv[1])
        assert type(envs.single_observation_space) is OwnSpace, type(envs.single_observation_space)
        envs.reset(seed=0)
        assert envs.step(np.zeros(2, int))[1].tolist() == [1, 1]
        envs.close()
"""


@pytest.mark.parametrize("context", ["forkserver", "spawn", "fork"])
def test_a_space_of_the_script_s_own_is_one_class(tmp_path: Path, context: str) -> None:
    (tmp_path / "script.py").write_text(OWN_SPACE)
    command = [sys.executable, tmp_path / "script.py", context]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("context", ["forkserver", "spawn", "fork"])
def test_a_script_on_stdin_is_told_what_helps(context: str) -> None:
    command = [sys.executable, "-", context]
    done = subprocess.run(command, input=OWN_SPACE, capture_output=True, text=True, timeout=120)
    assert done.returncode == (0 if context == "fork" else 1), done.stderr
    if context != "fork":
        assert 'save the program in a file, or pass context="fork"' in done.stderr.splitlines()[-1]


def test_a_worker_that_hangs_is_replaced(make: Any) -> None:
    envs = make(fns(kind=Hangs), 4, step_timeout=5)
    envs.reset(seed=0)
    infos = die(envs)[4]
    assert infos["fault"].tolist() == [False, True, False, False]
    assert "did not answer in time" in infos["fault_reason"][1]
    assert "fault" not in envs.step(np.zeros(4, int))[4]


def test_a_worker_that_dies_between_two_steps(make: Any) -> None:
    envs = make(workers=4)
    envs.reset(seed=0)
    pid = envs.call("np_random_seed") and envs._workers[2]._process.pid
    os.kill(pid, signal.SIGKILL)
    infos = envs.step(np.zeros(4, int))[4]
    assert infos["fault"].tolist() == [False, False, True, False]
    assert "fault" not in envs.step(np.zeros(4, int))[4]


def test_a_successor_that_is_killed_while_it_starts(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make(workers=4)
    envs.reset(seed=0)
    worker = envs._workers[2]
    os.kill(worker._process.pid, signal.SIGKILL)
    kind = worker._context.Process

    def broken(self: Any) -> None:
        raise BrokenPipeError

    with monkeypatch.context() as patch:
        patch.setattr(kind, "start", broken)
        assert envs.step(np.zeros(4, int))[4]["fault"].tolist() == [False, False, True, False]
    assert envs.step(np.zeros(4, int))[4]["fault"].tolist() == [False, False, True, False]
    assert "fault" not in envs.step(np.zeros(4, int))[4]
    assert envs.get_attr("count") == (3, 3, 0, 3)


def test_a_worker_that_dies_in_a_call(make: Any) -> None:
    envs = make(workers=4)
    envs.reset(seed=0)
    os.kill(envs._workers[2]._process.pid, signal.SIGKILL)
    with pytest.raises(arrayferry.errors.WorkerError, match="get_attr of environment 2: the worker died"):
        envs.get_attr("index")
    assert envs.step(np.zeros(4, int))[4]["fault"].tolist() == [False, False, True, False]
    assert envs.step(np.zeros(4, int))[4].get("fault") is None


def test_a_late_answer_is_not_taken_for_that_of_the_next_step(make: Any) -> None:
    envs = make(fns(kind=Hangs), 4, step_timeout=5)
    envs.reset(seed=0)
    with pytest.raises(arrayferry.errors.WorkerError, match="did not answer in time"):
        envs.call("doze", 10)
    assert envs.step(np.zeros(4, int))[4]["fault"].tolist() == [False, True, False, False]
    assert "fault" not in envs.step(np.zeros(4, int))[4]


def test_a_step_that_was_interrupted_is_over(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make(workers=4)
    envs.reset(seed=0)

    def interrupted() -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(envs, "_answers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            envs.step(np.zeros(4, int))
    with pytest.raises(arrayferry.FerryError, match="call reset"):
        envs.step(np.zeros(4, int))
    assert_equal(envs.reset(seed=11), SyncVectorEnv(fns()).reset(seed=11))  # and there was no fault
    assert envs.step(np.zeros(4, int))[1].tolist() == [1 / 3] * 4


def make_late(envs: Any, index: int, patch: pytest.MonkeyPatch) -> None:
    """Let the worker of one environment not be done in time, and go on nevertheless."""
    worker, answers = envs._workers[index], envs._answers
    first = worker._process

    def trouble(now: float) -> Any:
        return "the worker did not answer in time" if worker._process is first else None

    def without() -> Any:
        rows, rests = answers()
        if worker._process is first:
            rows = [row for row in rows if row != index]
            rests.pop(index, None)
        return rows, rests

    patch.setattr(envs, "_answers", without)
    patch.setattr(worker, "trouble", trouble)


class Talks(Toy):
    """Tells more than a pipe holds: as long as nobody reads, it is in the middle of it."""

    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], {"large": bytes(10_000_000)}

    @property
    def pid(self) -> int:
        return os.getpid()


def stop_in_the_middle_of_a_message(envs: ProcessVectorEnv) -> None:
    envs.reset(seed=0)
    (pid, *_) = envs.get_attr("pid")
    envs.step_async(np.zeros(4, int))
    assert select.select([envs._workers[0]._line.socket], [], [], 60)[0]
    os.kill(pid, signal.SIGSTOP)


def test_a_worker_that_is_stopped_in_the_middle_of_an_answer_is_replaced(make: Any) -> None:
    envs = make(fns(kind=Talks), 1, step_timeout=5)
    stop_in_the_middle_of_a_message(envs)
    infos = envs.step_wait()[4]
    assert infos["fault"].all()
    assert "did not answer in time" in infos["fault_reason"][0]
    assert "fault" not in envs.step(np.zeros(4, int))[4]


def test_a_large_answer_that_waited_for_a_worker_that_hangs_is_read(make: Any) -> None:
    class HangsOrTalks(Talks):
        def _misbehave(self) -> None:
            if self.index == 0:
                time.sleep(1000)

    envs = make(fns(kind=HangsOrTalks), step_timeout=5)
    envs.reset(seed=0)
    infos = envs.step(np.array([2, 0, 0, 0]))[4]
    assert infos["fault"].tolist() == [True, True, False, False]
    assert len(infos["large"][3]) == 10_000_000


def test_a_worker_that_is_stopped_does_not_keep_the_driver_from_asking(make: Any) -> None:
    envs = make(fns(kind=Talks), 1, step_timeout=5)
    (pid, *_) = envs.get_attr("pid")
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(arrayferry.errors.WorkerError, match="set_attr of environments 0 to 3"):
        envs.set_attr("large", bytes(10_000_000))
    assert envs.reset(seed=0)[1]["fault"].all()


def test_a_worker_that_is_stopped_in_the_middle_of_an_answer_can_be_closed(make: Any) -> None:
    envs = make(fns(kind=Talks), 1)
    stop_in_the_middle_of_a_message(envs)
    envs.close(timeout=1)
    assert not envs._workers[0]._process.is_alive()


def test_a_worker_that_is_late_is_killed_before_its_row_is_shown(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = make(workers=4)
    envs.reset(seed=0)
    alive, worker = [], envs._workers[1]
    process, tell_fault = worker._process, envs._tell_fault

    def tell(request: Any) -> None:
        alive.append(process.is_alive())
        tell_fault(request)

    with monkeypatch.context() as patch:
        make_late(envs, 1, patch)
        patch.setattr(envs, "_tell_fault", tell)
        assert envs.step(np.zeros(4, int))[4]["fault"].tolist() == [False, True, False, False]
    assert alive == [False]


def test_an_error_in_a_fault_leaves_no_late_answer(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make(workers=4, max_faults=1)
    envs.reset(seed=0)
    with monkeypatch.context() as patch:
        for index in (1, 2):
            make_late(envs, index, patch)
        with pytest.raises(arrayferry.errors.WorkerError, match="the worker of environment 1 failed: "):
            envs.step(np.zeros(4, int))
    assert_equal(envs.reset(seed=11), SyncVectorEnv(fns()).reset(seed=11))
    assert envs.step(np.zeros(4, int))[1].tolist() == [1 / 3] * 4


def test_an_exception_is_raised_rather_than_another_worker_s_faults(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = make(fns(kind=Raises), 4)
    envs.reset(seed=0)
    with monkeypatch.context() as patch:
        make_late(envs, 2, patch)
        with pytest.raises(KeyError, match="a wheel is off"):
            die(envs)


@pytest.mark.parametrize("ask", ["step", "reset"])
def test_an_interrupt_while_a_successor_resets(make: Any, monkeypatch: pytest.MonkeyPatch, ask: str) -> None:
    envs = make(workers=4, autoreset_mode=SAME_STEP)
    envs.reset(seed=0)
    worker = envs._workers[1]
    answers, successors = envs._answers, worker.successors

    def interrupted() -> Any:
        if worker.successors > successors:
            raise KeyboardInterrupt
        return answers()

    os.kill(worker._process.pid, signal.SIGKILL)
    with monkeypatch.context() as patch:
        patch.setattr(envs, "_answers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            envs.step(np.zeros(4, int)) if ask == "step" else envs.reset()
    with pytest.raises(arrayferry.FerryError, match="call reset"):
        envs.step(np.zeros(4, int))
    assert_equal(envs.reset(seed=11), SyncVectorEnv(fns()).reset(seed=11))
    assert envs.step(np.zeros(4, int))[1].tolist() == [1 / 3] * 4


def test_a_worker_that_dies_in_reset_is_replaced(make: Any) -> None:
    envs = make(workers=4)
    os.kill(envs._workers[2]._process.pid, signal.SIGKILL)
    obs, infos = envs.reset(seed=0)
    assert infos["fault"].tolist() == [False, False, True, False]
    assert obs.shape == (4, 2, 3)
    assert "fault" not in envs.step(np.zeros(4, int))[4]


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_too_many_faults_in_a_row_raise(make: Any, mode: AutoresetMode) -> None:
    envs = make(fns(kind=Dies), 4, max_faults=2, autoreset_mode=mode)
    envs.reset(seed=0)
    die(envs)
    for _ in range(2 if mode is NEXT_STEP else 0):  # a good step between them
        envs.step(np.zeros(4, int))
    if mode is NEXT_STEP:
        die(envs)
        os.kill(envs._workers[1]._process.pid, signal.SIGKILL)
    with pytest.raises(arrayferry.errors.WorkerError, match="failed 2 times in a row"):
        die(envs)
    envs.reset(seed=0)
    assert "fault" not in envs.step(np.zeros(4, int))[4]


def test_a_crash_in_the_first_step_of_each_episode_raises_in_the_end(make: Any) -> None:
    envs = make(fns(kind=Dies), 4, max_faults=3)
    envs.reset(seed=0)
    for _ in range(4):  # a fault, a reset, a fault, a reset
        die(envs)
    with pytest.raises(arrayferry.errors.WorkerError, match="failed 3 times in a row"):
        die(envs)


def test_a_successor_s_seed_is_made_of_the_last_one_given(make: Any) -> None:
    envs = make(fns(kind=Dies), 4, autoreset_mode=DISABLED)
    envs.reset(seed=5)
    envs.reset()
    die(envs)
    envs.reset(options={"reset_mask": np.array([False, True, False, False])})
    assert envs.np_random_seed[1] == int(np.random.SeedSequence([6, 1, 1]).generate_state(1)[0])


def test_a_reset_without_a_seed_after_a_fault_has_the_successor_s(make: Any) -> None:
    envs = make(fns(kind=Dies), 2)
    envs.reset(seed=5)
    die(envs)
    envs.reset(seed=[None, 9, None, None])
    seed = int(np.random.SeedSequence([5, 0, 1]).generate_state(1)[0])
    assert envs.get_attr("last_seed") == (seed, 9, None, None)


def test_without_autoreset_a_fault_is_the_end_of_an_episode(make: Any) -> None:
    envs = make(fns(kind=Dies), 2, autoreset_mode=DISABLED)
    envs.reset(seed=5)
    truncated = die(envs)[3]
    with pytest.raises(arrayferry.errors.UnsupportedError, match="whose episode is over"):
        envs.step(np.zeros(4, int))
    envs.reset(options={"reset_mask": truncated})
    assert envs.step(np.zeros(4, int))[1].tolist() == [1 / 3, 1 / 3, 2 / 3, 2 / 3]


def test_all_workers_that_are_lost_in_a_call_are_replaced(make: Any) -> None:
    envs = make(fns(kind=Hangs), 2, step_timeout=5)
    envs.reset(seed=0)
    os.kill(envs._workers[1]._process.pid, signal.SIGKILL)
    with pytest.raises(arrayferry.errors.WorkerError, match="environments 0 to 1"):
        envs.call("doze", 10)
    assert envs.step(np.zeros(4, int))[4]["fault"].all()
    assert "fault" not in envs.step(np.zeros(4, int))[4]


def test_an_exception_is_raised_as_it_is_and_reset_goes_on(make: Any) -> None:
    envs = make(fns(kind=Raises), 2)
    envs.reset(seed=0)
    with pytest.raises(KeyError, match="a wheel is off") as caught:
        die(envs)
    if sys.version_info >= (3, 11):
        assert "in _misbehave" in "".join(caught.value.__notes__)
        assert "environments 0 to 1" in "".join(caught.value.__notes__)
    with pytest.raises(arrayferry.FerryError, match="call reset"):
        envs.step(np.zeros(4, int))
    assert_equal(envs.reset(seed=11), SyncVectorEnv(fns()).reset(seed=11))
    assert envs.step(np.zeros(4, int))[1].shape == (4,)


def test_an_exception_that_cannot_be_pickled_is_told_once(make: Any) -> None:
    class WheelError(Exception):
        def __init__(self, wheel: int, side: str) -> None:
            super().__init__(f"the {side} wheel {wheel} is off")

    class Loses(Toy):
        def _misbehave(self) -> None:
            raise WheelError(3, "left")

    envs = make(fns(kind=Loses))
    envs.reset(seed=0)
    with pytest.raises(RuntimeError, match=r"WheelError: the left wheel 3 is off$") as caught:
        die(envs)
    if sys.version_info >= (3, 11):
        assert "".join(caught.value.__notes__).count("in _misbehave") == 1


def test_infos_that_cannot_be_sent_are_told(make: Any) -> None:
    class Locks(Toy):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], {"lock": threading.Lock()}

    envs = make(fns(kind=Locks))
    envs.reset(seed=0)
    with pytest.raises(arrayferry.errors.UnsupportedError, match="cannot be sent to or from a worker"):
        envs.step(np.zeros(4, int))


def test_an_environment_that_cannot_be_closed_does_not_keep_the_others_open(tmp_path: Path) -> None:
    class Sticks(Toy):
        def close(self) -> None:
            (tmp_path / str(self.index)).touch()
            if self.index == 2:
                raise OSError("the lid sticks")

    envs = ProcessVectorEnv(fns(4, Sticks), workers=2)
    with pytest.warns(RuntimeWarning, match="an environment was not closed: OSError: the lid sticks"):
        envs.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]

    envs = ProcessVectorEnv(fns(4, Sticks), workers=2)
    with pytest.raises(RuntimeWarning, match="the lid sticks"):  # a warning that is an error
        envs.close()
    assert not any(worker._process.is_alive() for worker in envs._workers)


@pytest.mark.parametrize("kind", [EOFError, ConnectionRefusedError])
def test_an_environment_s_own_error_is_no_fault(make: Any, kind: type[Exception], tmp_path: Path) -> None:
    class Refuses(Dies):
        def __init__(self, index: int) -> None:
            super().__init__(index)
            if (tmp_path / "refuse").exists():
                raise kind("no simulator")

        def last_actions(self) -> Any:
            raise kind("the simulator is gone")

    envs = make(fns(kind=Refuses), 4)
    envs.reset(seed=0)
    with pytest.raises(kind, match="the simulator is gone"):
        envs.call("last_actions")
    (tmp_path / "refuse").touch()
    assert die(envs)[4]["fault"].tolist() == [False, True, False, False]
    with pytest.raises(kind, match="no simulator"):
        envs.step(np.zeros(4, int))
    (tmp_path / "refuse").unlink()
    assert "fault" not in envs.reset(seed=0)[1]  # which was told by the exception


def test_an_answer_that_nobody_has_read_does_not_keep_a_worker_from_closing(
    make: Any, tmp_path: Path
) -> None:
    class Tells(Toy):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], {"much": b"x" * 5_000_000}

        def close(self) -> None:
            (tmp_path / str(self.index)).touch()

    envs = make(fns(2, Tells), step_timeout=30)
    envs.reset(seed=0)
    envs.step_async(np.zeros(2, int))
    while (envs._block.answered != envs._block.asked).any():  # they have stepped, and tell
        time.sleep(0.01)
    envs.close()
    assert (tmp_path / "0").exists()
    assert (tmp_path / "1").exists()


def test_close_always_returns_and_leaves_no_process() -> None:
    for context in ("spawn", "forkserver"):
        envs = ProcessVectorEnv(fns(kind=Hangs), workers=4, context=context, step_timeout=3)
        envs.reset(seed=0)
        envs.step_async(np.array([0, 2, 0, 0]))
        processes = [worker._process for worker in envs._workers]
        os.kill(processes[3].pid, signal.SIGKILL)
        envs.close()
        envs.close()
        assert not any(process.is_alive() for process in processes)
        with pytest.raises(arrayferry.FerryError, match="closed"):
            envs.reset()


SCRIPT = """
import sys, os, signal, time
import gymnasium as gym, numpy as np
from arrayferry.scale import ProcessVectorEnv
class Env(gym.Wrapper):
    def step(self, action):
        if "hang" in sys.argv:
            time.sleep(1000)
        *result, _ = self.env.step(action)
        return *result, {{"much": b"x" * 5_000_000}}
{guard}
    envs = ProcessVectorEnv([lambda: Env(gym.make("CartPole-v1"))] * 2, workers=2, context={context!r})
    envs.reset(seed=0)
    for worker in envs._workers:
        semaphores = [one._semlock.name for one in (worker._go, envs._done)]
        print(worker._process.pid, *semaphores, flush=True)
    if "hang" in sys.argv or "tell" in sys.argv:
        envs.step_async(np.zeros(2, int))
    if "die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    envs.close()
"""


def run_script(folder: Path, context: str, guard: str, *arguments: str) -> Any:
    file = folder / "script.py"
    file.write_text(SCRIPT.format(guard=guard, context=context))
    return subprocess.run([sys.executable, file, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_a_script_without_a_guard_is_told_what_to_write(tmp_path: Path, context: str) -> None:
    done = run_script(tmp_path, context, "if True:")
    assert done.returncode == 1
    assert "this script starts workers when a worker imports it" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]
    assert "resource_tracker" not in done.stderr
    assert run_script(tmp_path, context, 'if __name__ == "__main__":').returncode == 0


def test_an_environment_may_take_its_time_to_close(make: Any, tmp_path: Path) -> None:
    class Films(Toy):
        def close(self) -> None:
            time.sleep(3)
            (tmp_path / str(self.index)).write_text("a film")

    envs = make([Toy, lambda: Films(1)])
    envs.close()
    assert (tmp_path / "1").exists()
    envs = make([Toy, lambda: Films(2)])
    envs.close(terminate=True)
    assert not (tmp_path / "2").exists()


FORKS_JAX = """
import gymnasium as gym, jax
from arrayferry.scale import ProcessVectorEnv
env_fns = [lambda: gym.make("CartPole-v1")] * 2
ProcessVectorEnv(env_fns, workers=2, context="fork").close()
jax.numpy.ones(1) + 1
try:
    ProcessVectorEnv(env_fns, workers=2, context="fork")
except ValueError as error:
    print(error)
if __name__ == "__main__":
    ProcessVectorEnv(env_fns, workers=2).close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="does not fork")
def test_a_fork_after_jax_has_started_is_refused(run_python: Any) -> None:
    pytest.importorskip("jax")
    done = run_python(FORKS_JAX)
    assert 'context="fork" after JAX has started' in done
    assert 'pass context="forkserver"' in done


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /dev/shm and /proc")
@pytest.mark.parametrize("at", ["idle", "hang", "tell"])
@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_nothing_is_left_when_the_driver_is_killed(tmp_path: Path, context: str, at: str) -> None:
    done = run_script(tmp_path, context, 'if __name__ == "__main__":', "die", at)
    words = done.stdout.split()
    traces = [Path(f"/dev/shm/sem.{word[1:]}" if word[0] == "/" else f"/proc/{word}") for word in words]
    assert len(traces) == 6
    while any(trace.exists() for trace in traces):  # until the test's time is over
        time.sleep(0.1)


def test_options_that_cannot_be_sent_say_so() -> None:
    envs = ProcessVectorEnv([lambda: gym.make("CartPole-v1")] * 2, workers=1)
    try:
        with pytest.raises(arrayferry.errors.UnsupportedError, match="cannot be sent to or from a worker"):
            envs.reset(options={"lock": threading.Lock()})
        envs.reset(seed=0)
    finally:
        envs.close()
