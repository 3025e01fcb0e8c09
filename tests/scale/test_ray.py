"""`RayVectorEnv` returns what `SyncVectorEnv` returns, and goes on when an actor or a host dies.

`make test-with NAME=ray` runs this, and with `ARGS='-m "ray and stress"'` the goals in full.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.scale import RayVectorEnv
from arrayferry.scale._actor import Actor
from arrayferry.scale._pickling import pickled
from arrayferry.scale._worker import Task
from scale.infos import Tells, compare_infos
from scale.test_async import compare_alone, receive
from scale.test_process import (
    DISABLED,
    NEXT_STEP,
    SAME_STEP,
    Dies,
    Hangs,
    Odd,
    Raises,
    Toy,
    assert_equal,
    compare,
    die,
    fns,
)
from test_docs import examples_of, run

ray = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),  # Ray's, about itself
    pytest.mark.usefixtures("ray_settings"),
]

ZEROS = np.zeros(4, int)
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def make(ray_cluster: None) -> Iterator[Any]:
    made: list[Any] = []

    def make(env_fns: Any = None, workers: int | None = 2, **options: Any) -> RayVectorEnv:
        made.append(RayVectorEnv(env_fns or fns(), workers=workers, **options))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


class Slow(Toy):
    """Takes its time, so that it can be killed in a step."""

    def step(self, action: Any) -> Any:
        time.sleep(0.01)
        return super().step(action)

    @property
    def pid(self) -> int:
        return os.getpid()

    def generator(self) -> Any:
        return (number for number in range(3))


# --- equal to SyncVectorEnv


@pytest.mark.parametrize(
    ("observes", "mode", "workers"),
    [
        ("box", NEXT_STEP, 1),
        ("box", SAME_STEP, 5),
        ("dict", DISABLED, 2),
        ("dict", SAME_STEP, 3),
        ("tuple", NEXT_STEP, 9),
        ("graph", NEXT_STEP, 2),
        ("graph", SAME_STEP, 2),
        ("text", DISABLED, 2),
        ("discrete", SAME_STEP, 2),
        ("sequence", NEXT_STEP, 2),
    ],
)
def test_it_equals_sync(make: Any, observes: str, mode: AutoresetMode, workers: int) -> None:
    env_fns = fns(5, observes=observes)
    compare(make(env_fns, workers, autoreset_mode=mode), SyncVectorEnv(env_fns, autoreset_mode=mode))


@pytest.mark.parametrize("cores", [1, 2])
def test_it_equals_sync_for_odd_observations(make: Any, cores: int) -> None:
    ours = make(fns(5, Odd), autoreset_mode=SAME_STEP, actor_options={"num_cpus": cores})
    compare(ours, SyncVectorEnv(fns(5, Odd), autoreset_mode=SAME_STEP))


@pytest.mark.parametrize(
    ("mode", "workers", "cores"),
    [(NEXT_STEP, 1, 1), (SAME_STEP, 2, 1), (DISABLED, 3, 1), (NEXT_STEP, 2, 2), (SAME_STEP, 1, 2)],
)
def test_infos_equal_those_of_sync(make: Any, mode: AutoresetMode, workers: int, cores: int) -> None:
    """Gymnasium's dtypes depend on the row that comes first, of all rows."""
    ours = make(fns(5, Tells), workers, autoreset_mode=mode, actor_options={"num_cpus": cores})
    assert compare_infos(ours, SyncVectorEnv(fns(5, Tells), autoreset_mode=mode), steps=100) > 50


@pytest.mark.parametrize("acts", ["box", "dict", "text"])
def test_it_equals_sync_for_every_kind_of_action(make: Any, acts: str) -> None:
    env_fns = fns(3, acts=acts)
    compare(make(env_fns), SyncVectorEnv(env_fns))


@pytest.mark.parametrize("mode", [NEXT_STEP, DISABLED])
def test_stable_baselines_is_told_of_it_as_of_sync(make: Any, mode: AutoresetMode) -> None:
    pytest.importorskip("stable_baselines3")
    from arrayferry.learners import sb3_vec_env

    venvs = [sb3_vec_env(envs) for envs in (make(fns(3), autoreset_mode=mode), SyncVectorEnv(fns(3)))]
    for venv in venvs:
        venv.seed(7)
        venv.reset()
    ends = 0
    for _ in range(20):
        mine, expected = (venv.step(ZEROS[:3]) for venv in venvs)
        for one, other in zip(mine, expected, strict=True):
            np.testing.assert_equal(one, other)
        ends += mine[2].sum()
    assert ends > 3


def test_an_actor_with_several_cores_has_a_process_for_each(make: Any) -> None:
    envs = make(fns(kind=Slow), 1, actor_options={"num_cpus": 2})
    compare(envs, SyncVectorEnv(fns(kind=Slow)))
    assert len(set(envs.get_attr("pid"))) == 2


def test_one_of_the_processes_of_an_actor_dies(make: Any) -> None:
    envs = make(fns(kind=Dies), 1, actor_options={"num_cpus": 2})
    envs.reset(seed=0)
    infos = die(envs)[4]
    assert infos["fault"].tolist() == [True, True, False, False]
    assert "exit code -9" in infos["fault_reason"][1]
    assert "fault" not in envs.step(ZEROS)[4]


def test_the_seeds_of_an_actor_s_successor_are_not_those_of_its_processes(make: Any) -> None:
    envs = make(fns(kind=Dies), 1, actor_options={"num_cpus": 2})
    envs.reset(seed=0)
    die(envs)
    envs.step(ZEROS)
    first = envs.get_attr("last_seed")
    kill_and_wait(envs._workers[0]._actor)
    assert envs.step(ZEROS)[4]["fault"].all()
    envs.step(ZEROS)
    assert not set(first) & set(envs.get_attr("last_seed"))


def test_an_actor_may_have_a_part_of_a_core(make: Any) -> None:
    compare(make(actor_options={"num_cpus": 0.5}), SyncVectorEnv(fns()))


def test_what_it_returns_is_the_caller_s(make: Any) -> None:
    """What Ray returns is read-only, also where it goes into infos."""
    envs = make(fns(4, kind=Large), autoreset_mode=SAME_STEP)
    obs, _ = envs.reset(seed=0)
    kept = obs.copy()
    for _ in range(3):
        *arrays, infos = envs.step(ZEROS)
    assert np.array_equal(obs, kept)
    for array in (*arrays, infos["final_obs"][0], infos["large"]):
        array[...] = 1
    (large, *_) = envs.call("large")
    large += 1


@pytest.mark.parametrize("is_large", [False, True])
def test_what_the_caller_writes_is_never_shown_again(make: Any, is_large: bool) -> None:
    envs = make(fns(kind=Large if is_large else Toy), autoreset_mode=DISABLED)
    envs.reset(seed=0)
    obs, *_ = envs.step(ZEROS)
    kept = obs.copy()
    obs[...] = 7
    obs, _ = envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    assert not np.array_equal(obs[0], kept[0])
    assert np.array_equal(obs[1:], kept[1:])
    obs[...] = 7
    kill_and_wait(envs._workers[1]._actor)
    obs, *_, infos = envs.step(ZEROS)
    assert infos["fault"].tolist() == [False, False, True, True]
    assert np.array_equal(obs[2:], kept[2:])


def kill_and_wait(actor: Any) -> None:
    """Kill an actor, and wait until it answers no more: Ray kills it some time later."""
    ray.kill(actor)
    with suppress(ray.exceptions.RayActorError):
        while True:
            ray.get(actor.__ray_ready__.remote())


class Large(Toy):
    """Observes more than Ray sends with its answers."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.observation_space = gym.spaces.Box(0, 255, (300_000,), np.uint8)

    def step(self, action: Any) -> Any:
        *result, _ = super().step(action)
        return *result, {"large": self.large()}

    def large(self) -> Any:
        return np.ones(200_000)


class LargeAndOdd(Large):
    """Shows what cannot go to the driver as it is: subclasses, of another dtype, or not contiguous."""

    def _observe(self) -> Any:
        obs = super()._observe()
        return [obs.view(np.recarray), obs.astype(np.bool_), np.repeat(obs, 2)[::2], obs][self.index]


@pytest.mark.parametrize("kind", [Large, LargeAndOdd])
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
def test_it_equals_sync_for_large_observations(make: Any, kind: type[Toy], mode: AutoresetMode) -> None:
    ours = make(fns(kind=kind), autoreset_mode=mode)
    compare(ours, SyncVectorEnv(fns(kind=kind), autoreset_mode=mode), steps=8)


def test_a_large_observation_of_another_shape_is_refused_as_by_sync(make: Any) -> None:
    class Grows(Large):
        def _observe(self) -> Any:
            return np.zeros(300_001, np.uint8)

    with pytest.raises(ValueError, match="shape"):
        make(fns(kind=Grows)).reset()


def test_large_observations_are_stacked_by_the_driver_only() -> None:
    actor = Actor(Task(pickled(fns(kind=Large)), range(4), 4, NEXT_STEP), 1, 60, 3)
    actor.make()
    message = actor.run(range(4), cloudpickle.dumps(("reset", ({}, None), {})))
    assert [len(part) for part in message[1:]] == [300_000] * 4


def test_a_wrapper_takes_over_what_was_received(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    envs = make(fns(kind=Large))
    wrapped = arrayferry.wrap(envs, "torch")
    addresses, observations = [], envs._observations

    def stacked(rows: Any) -> Any:
        obs = observations(rows)
        addresses.append(obs.ctypes.data)
        return obs

    monkeypatch.setattr(envs, "_observations", stacked)
    for obs in (lambda: wrapped.reset(seed=0)[0], lambda: wrapped.step(torch.zeros(4, dtype=torch.int64))[0]):
        assert obs().data_ptr() == addresses.pop()


def test_wrapped_for_torch(make: Any) -> None:
    torch = pytest.importorskip("torch")
    envs = arrayferry.wrap(make(), "torch")
    envs.reset(seed=0)
    obs, reward, *_ = envs.step(torch.zeros(4, dtype=torch.int64))
    assert (obs.shape, reward.dtype) == ((4, 2, 3), torch.float64)


def test_attributes_calls_and_rendering(make: Any) -> None:
    envs = make()
    envs.reset(seed=0)
    assert envs.get_attr("index") == (0, 1, 2, 3)
    envs.set_attr("index", [3, 2, 1, 0])
    assert envs.call("index") == (3, 2, 1, 0)
    with pytest.raises(AttributeError, match="no_such"):
        envs.get_attr("no_such")
    drawn = make(fns(kind=Draws))
    drawn.reset(seed=0)
    assert drawn.render_mode == "rgb_array"
    assert_equal(drawn.render(), tuple(np.full((2, 2, 3), index, np.uint8) for index in range(4)))


class Draws(Toy):
    render_mode = "rgb_array"

    def render(self) -> Any:
        return np.full((2, 2, 3), self.index, np.uint8)


def test_steps_overlap_with_the_caller(make: Any) -> None:
    envs = make()
    envs.reset(seed=0)
    envs.step_async(ZEROS)
    with pytest.raises(arrayferry.FerryError, match="step_wait"):
        envs.reset()
    assert len(envs.step_wait()) == 5


def test_answers_are_taken_as_they_arrive(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first actor answers when the driver has taken the answer of the second."""
    envs, file = make(fns(kind=Waits)), tmp_path / "taken"
    envs.reset(seed=0)
    envs.set_attr("file", file)
    second = envs._workers[1]
    finish = second.finish

    def taken(request: Any) -> None:
        finish(request)
        file.touch()

    monkeypatch.setattr(second, "finish", taken)
    sync = SyncVectorEnv(fns())
    sync.reset(seed=0)
    assert_equal(envs.step(ZEROS), sync.step(ZEROS))


class Waits(Toy):
    """The first one waits for a file."""

    file: Path

    def step(self, action: Any) -> Any:
        while self.index == 0 and not self.file.exists():
            time.sleep(0.01)
        return super().step(action)


def test_the_example_in_the_docstring(ray_cluster: None) -> None:
    (example,) = examples_of("arrayferry.scale.actors")
    run(example)


# --- faults


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
def test_an_actor_that_dies_is_replaced(make: Any, mode: AutoresetMode) -> None:
    envs, sync = make(fns(kind=Dies), autoreset_mode=mode), SyncVectorEnv(fns(), autoreset_mode=mode)
    envs.reset(seed=5)
    sync.reset(seed=5)
    last, *_ = envs.step(ZEROS)
    sync.step(ZEROS)

    obs, reward, terminated, truncated, infos = die(envs)
    expected = sync.step(ZEROS)
    for mine, theirs in zip((obs, reward, terminated, truncated), expected):
        assert np.array_equal(mine[2:], theirs[2:])
    assert (reward[:2].tolist(), terminated[:2].any(), truncated[:2].all()) == ([0, 0], False, True)
    assert infos["fault"].tolist() == [True, True, False, False]
    assert "died (ActorDiedError: The actor is dead because" in infos["fault_reason"][1]
    seeds = tuple(int(np.random.SeedSequence([5 + i, i, 1, 1]).generate_state(1)[0]) for i in range(2))
    if mode is SAME_STEP:
        assert_equal(list(infos["final_obs"][:2]), list(last[:2]))
        assert not np.array_equal(obs[:2], last[:2])
    else:
        assert np.array_equal(obs[:2], last[:2])
        if mode is DISABLED:
            envs.reset(seed=[*seeds, None, None], options={"reset_mask": infos["fault"]})
        else:
            assert not np.array_equal(envs.step(ZEROS)[0][:2], last[:2])
    assert envs.get_attr("last_seed")[:2] == seeds
    assert envs.get_attr("count")[:2] == (0, 0)
    assert "fault" not in envs.step(ZEROS)[4]
    assert envs.get_attr("count")[:2] == (1, 1)


def test_an_actor_that_hangs_is_replaced(make: Any) -> None:
    envs = make(fns(kind=Hangs), step_timeout=5)
    envs.reset(seed=0)
    infos = die(envs)[4]
    assert infos["fault"].tolist() == [True, True, False, False]
    assert "did not answer in time" in infos["fault_reason"][1]
    assert "fault" not in envs.step(ZEROS)[4]


def test_an_actor_that_dies_in_a_call_or_in_reset(make: Any) -> None:
    envs = make(fns(kind=Slow))
    _, _, third, _ = envs.get_attr("pid")
    os.kill(third, signal.SIGKILL)
    time.sleep(1)  # a call that is quicker than Ray would be answered
    with pytest.raises(arrayferry.errors.WorkerError, match="environments 2 to 3"):
        envs.get_attr("pid")
    assert envs.reset(seed=0)[1]["fault"].tolist() == [False, False, True, True]
    assert "fault" not in envs.step(ZEROS)[4]


def test_too_many_faults_in_a_row_raise(make: Any) -> None:
    envs = make(fns(kind=Dies), max_faults=2, autoreset_mode=SAME_STEP)
    envs.reset(seed=0)
    die(envs)
    with pytest.raises(arrayferry.errors.WorkerError, match="environments 0 to 1 failed 2 times in a row"):
        die(envs)
    envs.reset(seed=0)
    assert "fault" not in envs.step(ZEROS)[4]


def test_an_exception_is_raised_as_it_is_and_reset_goes_on(make: Any) -> None:
    envs = make(fns(kind=Raises))
    envs.reset(seed=0)
    with pytest.raises(KeyError, match="a wheel is off") as caught:
        die(envs)
    assert "in _misbehave" in "".join(getattr(caught.value, "__notes__", ["in _misbehave"]))
    with pytest.raises(arrayferry.FerryError, match="call reset"):
        envs.step(ZEROS)
    assert_equal(envs.reset(seed=11), SyncVectorEnv(fns()).reset(seed=11))


def test_an_answer_that_cannot_be_sent_says_so(make: Any) -> None:
    envs = make(fns(kind=Slow))
    with pytest.raises(TypeError, match="cannot pickle 'generator'"):
        envs.call("generator")
    assert envs.reset(seed=0)[0].shape == (4, 2, 3)


@pytest.mark.parametrize("cores", [1, 2])
def test_a_successor_has_what_the_caller_set(make: Any, cores: int) -> None:
    envs = make(fns(kind=Slow), 2, actor_options={"num_cpus": cores})
    envs.set_attr("level", 1)
    envs.set_attr("level", [5, 6, 7, 8])
    envs.reset(seed=0)
    pid = envs.get_attr("pid")[2]
    os.kill(pid if cores == 1 else parent_of(parent_of(pid)), signal.SIGKILL)  # the fork server is between
    while "fault" not in (infos := envs.step(ZEROS)[4]):  # Ray needs some time
        pass
    assert infos["fault"].tolist() == [False, False, True, True]
    envs.step(ZEROS)
    assert envs.get_attr("level") == (5, 6, 7, 8)
    os.kill(envs.get_attr("pid")[0], signal.SIGKILL)
    envs.reset(seed=[3, 1, 4, 2], options={"map": "desert"})
    assert envs.get_attr("last_seed") == (3, 1, 4, 2)
    assert envs.get_attr("options") == ({"map": "desert"},) * 4
    assert envs.get_attr("level") == (5, 6, 7, 8)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("cores", [1, 2])
def test_an_info_that_could_be_taken_for_a_fault_is_refused(make: Any, cores: int) -> None:
    class Claims(Toy):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], {"fault": False} if self.index == 3 else {}

    envs = make(fns(kind=Claims), actor_options={"num_cpus": cores})
    envs.reset(seed=0)
    with pytest.raises(arrayferry.FerryError, match="'fault'") as caught:
        envs.step(ZEROS)
    assert "rename it" in str(caught.value)


@pytest.mark.parametrize("cores", [1, 2])
def test_a_constructor_that_aborts_is_an_error(make: Any, cores: int) -> None:
    with pytest.raises(arrayferry.errors.WorkerError, match="did not start"):
        make([*fns(3), os.abort], actor_options={"num_cpus": cores})


@pytest.mark.parametrize("mode", [SAME_STEP, DISABLED])
def test_the_death_of_a_process_of_an_actor_is_one_fault(make: Any, mode: AutoresetMode) -> None:
    envs = make(fns(8, kind=Slow), 2, autoreset_mode=mode, actor_options={"num_cpus": 2})
    envs.reset(seed=0)
    last, *_ = envs.step(np.zeros(8, int))
    os.kill(envs.get_attr("pid")[6], signal.SIGKILL)
    obs, reward, terminated, truncated, infos = envs.step(np.zeros(8, int))
    lost = np.repeat([False, True], [6, 2])
    assert infos["fault"].tolist() == truncated.tolist() == lost.tolist()
    assert [reason is not None for reason in infos["fault_reason"]] == lost.tolist()
    assert not (reward[lost].any())
    assert not (terminated.any())
    if mode is DISABLED:
        assert_equal(list(obs[lost]), list(last[lost]))
        with pytest.raises(arrayferry.FerryError, match="reset it first"):
            envs.step(np.zeros(8, int))
        envs.reset(seed=0)
    else:
        assert_equal(list(infos["final_obs"][lost]), list(last[lost]))
    assert "fault" not in envs.step(np.zeros(8, int))[4]


class Rendered(Slow):
    render_mode = "rgb_array"

    def render(self) -> Any:
        return np.full(2, self.count)  # which a reset sets


@pytest.mark.parametrize("cores", [1, 2])
def test_a_successor_can_be_rendered_and_shows_nothing_of_it(make: Any, cores: int) -> None:
    envs = make(fns(kind=Rendered), autoreset_mode=DISABLED, actor_options={"num_cpus": cores})
    envs.reset(seed=0)
    last, *_ = envs.step(ZEROS)
    os.kill(envs.get_attr("pid")[2], signal.SIGKILL)
    while "fault" not in (result := envs.step(ZEROS))[4]:  # Ray needs some time
        last = result[0]
    assert [frame[0] for frame in envs.render()][2] == 0
    obs, _ = envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    assert np.array_equal(obs[2], last[2])


class Reference:
    """The environments one by one, each replaced when a fault was reported. Says which rows are wrong."""

    def __init__(self, envs: RayVectorEnv, count: int, seed: int) -> None:
        self.seeds, self.faults = [seed + index for index in range(count)], [0] * count
        self.envs, self.is_over = [Toy(index) for index in range(count)], [False] * count
        self.last = [env.reset(seed=one)[0] for env, one in zip(self.envs, self.seeds)]
        assert_equal(list(envs.reset(seed=seed)[0]), self.last)

    def wrong_rows(self, actions: Any, result: Any) -> list[int]:
        wrong = []
        for index, env in enumerate(self.envs):
            if result[4].get("fault", np.zeros(len(self.envs)))[index]:
                self.faults[index] += 1
                expected = self.last[index], 0, False, True
                self.envs[index], self.is_over[index] = Toy(index), None
            elif self.is_over[index] is None:
                words = [self.seeds[index], index, self.faults[index], 1]
                seed = int(np.random.SeedSequence(words).generate_state(1)[0])
                expected = env.reset(seed=seed)[0], 0, False, False
                self.is_over[index] = False
            elif self.is_over[index]:
                expected = env.reset()[0], 0, False, False
                self.is_over[index] = False
            else:
                expected = env.step(actions[index])[:4]
                self.is_over[index] = expected[2] or expected[3]
            self.last[index] = expected[0]
            if not all(np.array_equal(one[index], other) for one, other in zip(result, expected)):
                wrong.append(index)
        return wrong


def kill_actors(envs: RayVectorEnv, kills: int) -> tuple[int, list[int], float]:
    """Kill actors at random moments of a step; return how many faults, which wrong rows, the worst step."""
    rng, reference, faults, wrong, worst = random.Random(0), Reference(envs, 4, 0), 0, [], 0.0
    for _ in range(kills):
        timer = threading.Timer(rng.uniform(0, 0.03), os.kill, (rng.choice(envs.get_attr("pid")), 9))
        timer.start()
        good_steps = 0
        while good_steps < 2:  # one of them the reset of the successor
            start = time.perf_counter()
            result = envs.step(ZEROS)
            worst = max(worst, time.perf_counter() - start)
            wrong += reference.wrong_rows(ZEROS, result)
            faulty = int(result[4].get("fault", ZEROS).sum())
            faults += faulty // 2  # an actor has two environments
            good_steps = 0 if faulty or timer.is_alive() else good_steps + 1
    return faults, wrong, worst


def test_actors_are_killed_at_random(make: Any) -> None:
    faults, wrong, _ = kill_actors(make(fns(kind=Slow)), 3)
    assert (faults, wrong) == (3, [])


def test_close_always_returns(make: Any) -> None:
    envs = make(fns(kind=Hangs), 4, step_timeout=5)
    envs.reset(seed=0)
    envs.step_async(np.array([0, 2, 0, 0]))
    envs.close()
    envs.close()
    with pytest.raises(arrayferry.FerryError, match="closed"):
        envs.reset()


def test_a_shutdown_of_ray_is_the_end(make: Any) -> None:
    """No call starts another Ray, or reaches into one that was started since."""
    first, second = make(fns()), make(fns())
    first.reset(seed=0)
    second.reset(seed=0)
    second.step_async(ZEROS)
    ray.shutdown()
    for call in (lambda: first.step(ZEROS), first.reset, lambda: first.get_attr("index"), second.step_wait):
        with pytest.raises(arrayferry.errors.WorkerError, match="Ray was shut down"):
            call()
    first.close()
    assert not ray.is_initialized()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    with pytest.raises(arrayferry.errors.WorkerError, match="Ray was shut down"):
        second.reset()
    second.close()
    assert make().reset(seed=0)[0].shape == (4, 2, 3)


def test_environments_that_are_dropped_end_their_actors(make: Any) -> None:
    class Sleeps(Slow):
        def _misbehave(self) -> None:
            time.sleep(1000)

    envs = RayVectorEnv(fns(kind=Sleeps), workers=2)
    envs.reset(seed=0)
    pids = set(envs.get_attr("pid"))
    envs.step_async(np.array([2, 0, 0, 0]))
    del envs
    gc.collect()
    deadline = time.monotonic() + 30
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_alive(pid) for pid in pids)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_no_row_is_of_an_earlier_step_whatever_was_interrupted(make: Any) -> None:
    """An exception at the n-th line of the driver's code, as Ctrl-C would raise it.

    Waiting runs more lines at one time than at another: a step that is over before that line is counted
    again, and the next one is interrupted where the same part of its lines has run.
    """
    envs, sync = make(fns(kind=Toy), max_faults=100), SyncVectorEnv(fns())
    envs.reset(seed=0)
    for part in range(12):
        for _ in range(20):
            count = lines_of(lambda: envs.step(ZEROS), None)
            assert count > 50
            try:
                lines_of(lambda: envs.step(ZEROS), 1 + count * part // 12)
            except KeyboardInterrupt:
                break
        else:
            pytest.fail("none of the steps was interrupted")
        mine, expected = envs.reset(seed=part), sync.reset(seed=part)
        assert np.array_equal(mine[0], expected[0])
        for _ in range(2):
            mine, expected = envs.step(ZEROS), sync.step(ZEROS)
            for one, other in zip(mine[:4], expected[:4]):
                assert np.array_equal(one, other)


def lines_of(call: Any, interrupted: int | None) -> int:
    """Return how many lines of `arrayferry` a call runs; raise a `KeyboardInterrupt` before one of them."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if "arrayferry" not in frame.f_globals.get("__name__", ""):
            return None
        if event == "line":
            count += 1
            if count == interrupted:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return count


# --- the first that are ready


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
@pytest.mark.parametrize("observes", ["dict", "sequence"])
def test_each_sequence_is_that_of_the_environment_alone(
    make: Any, observes: str, mode: AutoresetMode
) -> None:
    env_fns = fns(5, observes=observes)
    compare_alone(make(env_fns, batch_size=2, autoreset_mode=mode), env_fns, batches=40)


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
def test_lost_actors_are_faults_of_their_environments(make: Any, mode: AutoresetMode) -> None:
    envs = make(fns(kind=Dies), batch_size=1, autoreset_mode=mode, workers=4)
    envs.async_reset(seed=5)
    first = receive(envs, 4)
    envs.send(np.array([0, 2, 0, 0]))
    rows = receive(envs, 4)
    assert [row[4].get("fault", False) for _, row in sorted(rows.items())] == [False, True, False, False]
    assert rows[1][3].tolist() == [True]
    last = rows[1][4]["final_obs"] if mode is SAME_STEP else rows[1][0][0]
    assert np.array_equal(last, first[1][0][0])
    times = envs.wait_times()
    assert 0 < times.learner < times.total
    assert 0 < times.workers < times.total


def test_actors_with_several_cores_step_all_of_their_environments(make: Any) -> None:
    with pytest.raises(arrayferry.errors.OptionError, match="pass 2 times as many workers"):
        make(batch_size=2, actor_options={"num_cpus": 2})


# --- clusters


def test_a_host_that_dies_is_left() -> None:
    leave_a_host()


def leave_a_host() -> float:
    """Kill a host with an actor; return the seconds until a good step."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    with two_hosts() as (cluster, other):
        ray.init(address=cluster.address, log_to_driver=False)
        options = {"scheduling_strategy": NodeAffinitySchedulingStrategy(other.node_id, soft=True)}
        envs = RayVectorEnv(fns(kind=Host), address=cluster.address, actor_options=options)
        reference = Reference(envs, 4, seed=0)
        assert len(envs._workers) == 2  # as there are hosts
        assert envs.get_attr("host") == (other.node_id,) * 4
        assert reference.wrong_rows(ZEROS, envs.step(ZEROS)) == []
        cluster.remove_node(other, allow_graceful=False)
        start = time.perf_counter()
        result, seen = (), set()
        while len(seen) < 4 or "fault" in result[4]:  # one actor may die a step before the other
            result = envs.step(ZEROS)
            assert reference.wrong_rows(ZEROS, result) == []
            seen |= set(np.flatnonzero(result[4].get("fault", ZEROS)))
        seconds = time.perf_counter() - start
        assert other.node_id not in envs.get_attr("host")
        envs.close()
    return seconds


@contextmanager
def two_hosts() -> Iterator[Any]:
    """A cluster of two hosts, which are processes of this one, and the one that may die."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        other = cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        yield cluster, other
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_rllib_trains_on_an_environment_in_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """The env runners, on two hosts, step it through our wrapper."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    with two_hosts() as (cluster, _):
        from rllib_jax import configured, train

        ray.init(address=cluster.address, log_to_driver=False)
        config = configured().env_runners(num_cpus_per_env_runner=2)  # a host for each
        algorithm = config.debugging(seed=0).build_algo()
        first, *_, last = train(algorithm, 4)
        found = algorithm.env_runner_group.foreach_env_runner(what_it_steps, local_env_runner=False)
        algorithm.stop()
    assert len({host for host, *_ in found}) == 2
    assert [layers for _, *layers in found] == [[True, True]] * 2
    assert last > first


def what_it_steps(runner: Any) -> Any:
    """The host of an env runner; whether its environments are in our wrapper, and are in JAX within."""
    envs = runner.env.unwrapped.envs
    stack = [env := envs[0]]
    while env is not env.unwrapped:
        stack.append(env := env.env)
    is_ours = any(type(layer).__module__.startswith("arrayferry") for layer in stack)
    is_jax = type(env.state).__module__.startswith("jax")
    return ray.get_runtime_context().get_node_id(), is_ours, is_jax


class Host(Toy):
    @property
    def host(self) -> str:
        return ray.get_runtime_context().get_node_id()


# --- what is refused


def test_options_that_are_refused(make: Any) -> None:
    with pytest.raises(arrayferry.errors.OptionError, match="max_task_retries"):
        make(actor_options={"max_task_retries": 3})
    with pytest.raises(arrayferry.errors.OptionError, match=r"10\.1\.2\.3:6379.*initialised with"):
        make(address="10.1.2.3:6379")
    with pytest.raises(ValueError, match="env_fns is empty"):
        RayVectorEnv([])
    for workers in (0, -1):
        with pytest.raises(arrayferry.errors.OptionError, match="at least 1"):
            make(workers=workers)


def test_what_cannot_be_made_says_why(make: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        make([*fns(1), lambda: 1 / 0])
    with pytest.raises(arrayferry.FerryError, match="environment 2 has the observation space"):
        make([*fns(2), lambda: Toy(2, "discrete")], 3)
    with pytest.raises(arrayferry.errors.WorkerError, match="did not start: the worker did not answer"):
        make(restart_timeout=0.5, actor_options={"resources": {"moon": 1}})


# --- the goals, in full


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_fifty_kills_are_fifty_faults(make: Any) -> None:
    faults, wrong, worst = kill_actors(make(fns(kind=Slow)), 50)
    print(f"{faults} faults, {len(wrong)} wrong rows, worst step {worst:.1f} s")
    assert (faults, wrong) == (50, [])
    assert worst < 5


@pytest.mark.stress
def test_a_hang_returns_in_time(make: Any) -> None:
    for mode in (NEXT_STEP, DISABLED):
        envs = make(fns(kind=Hangs), step_timeout=2, autoreset_mode=mode)
        envs.reset(seed=0)
        start = time.perf_counter()
        assert die(envs)[4]["fault"].tolist() == [True, True, False, False]
        late = time.perf_counter() - start - 2
        print(f"a hang returns {late:.3f} s after step_timeout")
        assert late < 0.5


@pytest.mark.stress
def test_a_host_is_left_within_half_a_minute() -> None:
    seconds = leave_a_host()
    print(f"a good step {seconds:.1f} s after a host was killed")
    assert seconds < 30
