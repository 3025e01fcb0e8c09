"""`send` and `recv`: each environment's own sequence is that of the environment stepped alone."""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry
from arrayferry.scale import ProcessVectorEnv
from scale.interrupts import Interrupted, Lines, no_workers_are_left
from scale.test_process import ACTIONS, DISABLED, NEXT_STEP, OBSERVATIONS, SAME_STEP, Toy, assert_equal, fns

if sys.platform == "win32":
    pytest.skip("workers start with forkserver here, and are stopped by signals", allow_module_level=True)

MODES = [NEXT_STEP, SAME_STEP, DISABLED]


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Any] = []

    def make(env_fns: Any = None, batch_size: int | None = 2, **options: Any) -> ProcessVectorEnv:
        options = {"workers": 2, **options}
        made.append(ProcessVectorEnv(env_fns or fns(), batch_size=batch_size, **options))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


class Alone:
    """What one environment says, stepped by Gymnasium alone."""

    def __init__(self, env_fn: Any, mode: AutoresetMode) -> None:
        self.envs = SyncVectorEnv([env_fn], autoreset_mode=mode)

    def reset(self, seed: int | None) -> Any:
        obs, infos = self.envs.reset(seed=seed)
        return obs, np.zeros(1), np.zeros(1, bool), np.zeros(1, bool), infos

    def step(self, action: Any) -> Any:
        return self.envs.step(batch_of(self.envs, [action]))


def batch_of(envs: Any, actions: list[Any]) -> Any:
    """Return actions as a batch of the action space."""
    space = envs.single_action_space
    empty = gym.vector.utils.create_empty_array(space, len(actions))
    return gym.vector.utils.concatenate(space, actions, empty)


def row_of(result: Any, place: int) -> Any:
    """Return the part of a batch that belongs to one environment, as a batch of one."""
    obs, *arrays, infos = result
    infos = {key: value for key, value in infos.items() if key not in ("env_id", "_env_id")}
    return part(obs, place), *(array[place : place + 1] for array in arrays), info_of(infos, place)


def part(value: Any, place: int) -> Any:
    if isinstance(value, dict):
        return {key: part(one, place) for key, one in value.items()}
    if isinstance(value, tuple) and not any(isinstance(one, np.ndarray) for one in value):
        return value[place : place + 1]  # of a space without a fixed shape
    if isinstance(value, tuple):
        return tuple(part(one, place) for one in value)
    return value[place : place + 1]


def info_of(infos: dict[str, Any], place: int) -> dict[str, Any]:
    """Return the infos that one environment has, without their masks."""
    own = {}
    for key, value in infos.items():
        if f"_{key}" in infos and infos[f"_{key}"][place]:
            own[key] = info_of(value, place) if isinstance(value, dict) else value[place]
    return own


def compare_alone(envs: Any, env_fns: list[Any], batches: int, seed: int = 7) -> list[int]:
    """Compare every row with what its environment says alone; return how often each was returned."""
    mode = envs.metadata["autoreset_mode"]
    alone = [Alone(env_fn, mode) for env_fn in env_fns]
    expected = {index: one.reset(seed + index) for index, one in enumerate(alone)}
    counts = [0] * len(env_fns)
    envs.single_action_space.seed(seed)
    envs.async_reset(seed=seed)
    for _ in range(batches):
        result = envs.recv()
        ids = result[4]["env_id"].tolist()
        for place, index in enumerate(ids):
            counts[index] += 1
            assert_equal(plain(row_of(result, place)), plain(row_of(expected.pop(index), 0)))
        over = [index for place, index in enumerate(ids) if result[2][place] | result[3][place]]
        goes_on = [index for index in ids if index not in over or mode is not DISABLED]
        actions = {index: envs.single_action_space.sample() for index in goes_on}
        for index, action in actions.items():
            expected[index] = alone[index].step(action)
        if goes_on:
            envs.send(batch_of(envs, list(actions.values())), np.array(goes_on))
        if mode is DISABLED and over:
            mask = np.isin(np.arange(len(env_fns)), over)
            envs.async_reset(options={"reset_mask": mask})
            for index in over:
                expected[index] = alone[index].reset(None)
    return counts


def plain(row: Any) -> Any:
    obs, *arrays, infos = row
    return obs, *arrays, dict(sorted(infos.items()))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("observes", [name for name in OBSERVATIONS if name != "graph"])
def test_each_sequence_is_that_of_the_environment_alone(
    make: Any, observes: str, mode: AutoresetMode
) -> None:
    env_fns = fns(5, observes=observes)
    compare_alone(make(env_fns, autoreset_mode=mode), env_fns, batches=60)


@pytest.mark.parametrize("acts", ACTIONS)
@pytest.mark.parametrize("workers", [1, 3])
def test_it_takes_every_kind_of_action(make: Any, acts: str, workers: int) -> None:
    env_fns = fns(3, acts=acts)
    compare_alone(make(env_fns, workers=workers), env_fns, batches=30)


@pytest.mark.parametrize("batch_size", [1, 2, 5, None])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_size_with_any_number_of_workers(make: Any, workers: int, batch_size: int | None) -> None:
    env_fns = fns(5)
    counts = compare_alone(make(env_fns, batch_size, workers=workers), env_fns, batches=50)
    assert sum(counts) == 50 * (batch_size or 5)


class Gated(Toy):
    """The first one steps only when a file is there."""

    file: Path

    def step(self, action: Any) -> Any:
        while self.index == 0 and not self.file.exists():
            time.sleep(0.001)
        return super().step(action)


@pytest.mark.parametrize("workers", [2, 5])
def test_nobody_waits_for_a_slow_one(make: Any, workers: int, tmp_path: Path) -> None:
    envs = make(fns(5, Gated), 1, workers=workers)
    envs.reset(seed=0)
    envs.set_attr("file", tmp_path / "go on")
    behind = {1} if workers == 2 else set()  # in the same worker, and asked later
    envs.send(np.zeros(5, int))
    seen = [int(envs.recv()[4]["env_id"][0]) for _ in range(4 - len(behind))]
    assert set(seen) == {1, 2, 3, 4} - behind
    for _ in range(20):  # the others go round
        envs.send(np.zeros(1, int), seen[:1])
        seen.append(int(envs.recv()[4]["env_id"][0]))
        assert seen.pop(0) not in behind | {0}
    with pytest.raises(TimeoutError, match="no environment has answered within 0"):
        envs.recv(timeout=0) if workers == 5 else envs.recv(timeout=0.01)
    (tmp_path / "go on").touch()
    assert envs.recv()[4]["env_id"].tolist() == [0]


def test_a_worker_answers_row_by_row(make: Any, tmp_path: Path) -> None:
    class LastWaits(Gated):
        def __init__(self, index: int) -> None:
            super().__init__(3 - index)

    envs = make(fns(4, LastWaits), 3, workers=1)
    envs.reset(seed=0)
    envs.set_attr("file", tmp_path / "go on")
    envs.send(np.zeros(4, int))
    assert envs.recv()[4]["env_id"].tolist() == [0, 1, 2]  # while the last one steps
    (tmp_path / "go on").touch()
    assert envs.recv()[4]["env_id"].tolist() == [3]


def test_a_slow_one_does_not_starve_among_many_fast_ones(make: Any) -> None:
    """What has answered first is returned first, however many others are ready again."""

    class Sleeps(Toy):
        def step(self, action: Any) -> Any:
            time.sleep(0.005 * (self.index == 7))
            return super().step(action)

    envs = make(fns(8, Sleeps), 2, workers=8)
    envs.async_reset(seed=0)
    waits, since = 0, 0
    for number in range(400):
        ids = envs.recv()[4]["env_id"]
        if 7 in ids:
            since = number
        waits = max(waits, number - since)
        assert sorted(envs._under_way) == sorted(set(range(8)) - set(ids.tolist()))
        ready = list(envs._ready)
        envs.send(np.zeros(2, int), ids)
        assert list(envs._ready)[: len(ready)] == ready  # nobody gets in before them
    assert since > 0


def test_first_come_first_served(make: Any) -> None:
    envs = make(fns(6), 2, workers=6)
    envs.reset(seed=0)
    served = []
    for index in (4, 1, 5, 0):
        envs.send(np.zeros(1, int), [index])
        while index not in envs._ready:  # it has answered
            envs._wait(len(envs._ready) + 1)
    for _ in range(2):
        served += envs.recv()[4]["env_id"].tolist()
    assert served == [4, 1, 5, 0]


# --- faults


class Counter(gym.Env[Any, Any]):
    """Observes its seed, its number and its count; its episodes have different lengths."""

    observation_space = spaces.Box(-1, 2**62, (3, 50), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, index: int) -> None:
        self.index, self.seed = index, -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.count, self.seed = 0, self.seed if seed is None else seed
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self._observe(), float(self.count), self.count == 20 + self.index, False, {}

    def _observe(self) -> Any:
        return np.repeat([[self.seed], [self.index], [self.count]], 50, axis=1)


class Model:
    """What the rows of one environment must be; `asked` is what it was last asked for."""

    def __init__(self, index: int, mode: AutoresetMode) -> None:
        self.index, self.mode, self.seed, self.count = index, mode, 7 + index, 0
        self.asked, self.is_over, self.is_lost, self.faults = "reset", False, False, 0

    def check(self, obs: Any, numbers: Any, info: dict[str, Any]) -> None:
        is_fault = "fault" in info
        self.faults += is_fault
        if is_fault and self.asked == "step":
            assert numbers == (0, False, True), numbers
            if self.mode is SAME_STEP:
                assert (info["final_obs"] == self._row()).all()
                self._start(obs, is_lost=True)
            else:
                self.is_lost = self.is_over = True
        elif self.asked == "reset" or self.is_over:
            assert numbers == (0, False, False), numbers
            self._start(obs, self.is_lost or is_fault)
        else:
            self.count += 1
            self.is_over = self.count == 20 + self.index
            assert numbers == (self.count, self.is_over, False), (numbers, self.count)
            if self.is_over and self.mode is SAME_STEP:
                assert (info["final_obs"] == self._row()).all()
                self._start(obs, is_lost=False)
        assert (obs == self._row()).all(), (obs[:, ::49], self._row())
        self.asked = "reset" if self.is_over and self.mode is DISABLED else "step"

    def _start(self, obs: Any, is_lost: bool) -> None:
        self.count, self.is_over, self.is_lost = 0, False, False
        if is_lost:  # a successor's seed is made of the seed, the environment and the number of successors
            made = [
                int(np.random.SeedSequence([7 + self.index, self.index, number]).generate_state(1)[0])
                for number in range(1, 400)
            ]
            assert obs[0, 0] in (*made, 7 + self.index)  # which is that of a reset with a seed
            self.seed = int(obs[0, 0])

    def _row(self) -> Any:
        return [[self.seed], [self.index], [self.count]]


def run_with_kills(envs: Any, mode: AutoresetMode, kills: int, seed: int = 0) -> int:
    """Kill workers at random while batches go round; return how many faults there were."""
    chance, count = random.Random(seed), envs.num_envs
    models = [Model(index, mode) for index in range(count)]
    envs.async_reset(seed=7)
    killed: list[int] = []
    batch = 0
    while len(killed) < kills or batch < 20 * kills:
        batch += 1
        process = chance.choice(envs._workers)._process
        if len(killed) < kills and chance.random() < 0.2 and process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            killed.append(process.pid)
        obs, reward, terminated, truncated, info = envs.recv()
        ids = info["env_id"]
        for place, index in enumerate(ids.tolist()):
            numbers = float(reward[place]), bool(terminated[place]), bool(truncated[place])
            models[index].check(obs[place], numbers, info_of(info, place))
        over = terminated | truncated if mode is DISABLED else np.zeros(len(ids), bool)
        if not over.all():
            envs.send(np.zeros((~over).sum(), int), ids[~over])
        if over.any():
            envs.async_reset(options={"reset_mask": np.isin(np.arange(count), ids[over])})
    return sum(model.faults for model in models)


@pytest.mark.parametrize("mode", MODES)
def test_no_row_is_wrong_when_workers_are_killed(make: Any, mode: AutoresetMode) -> None:
    env_fns = [lambda index=index: Counter(index) for index in range(6)]
    with no_workers_are_left():
        envs = make(env_fns, workers=3, autoreset_mode=mode, max_faults=1000)
        assert run_with_kills(envs, mode, 6) > 0
        envs.close()


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [3, 6])
def test_fifty_kills_and_no_wrong_row(make: Any, workers: int, mode: AutoresetMode) -> None:
    env_fns = [lambda index=index: Counter(index) for index in range(6)]
    with no_workers_are_left():
        envs = make(env_fns, workers=workers, autoreset_mode=mode, max_faults=1000)
        print(run_with_kills(envs, mode, 50), "faults")
        envs.close()


class Dies(Toy):
    def _misbehave(self) -> None:
        if self.index == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def receive(envs: Any, count: int) -> dict[int, Any]:
    """Return the rows of all batches until so many have come, by environment."""
    rows: dict[int, Any] = {}
    while len(rows) < count:
        result = envs.recv()
        rows |= {index: row_of(result, place) for place, index in enumerate(result[4]["env_id"].tolist())}
    return rows


def test_all_environments_of_a_lost_worker_have_a_fault(make: Any) -> None:
    """Also one that was with the caller; but what it had answered before is what it was."""
    envs = make(fns(4, Dies), 1)
    envs.reset(seed=0)
    envs.send(np.zeros(1, int), [0])
    assert 0 in receive(envs, 1)
    envs.send(np.array([2]), [1])
    lost = receive(envs, 1)[1]
    assert lost[3].tolist() == [True]
    assert "died (exit code -9)" in lost[4]["fault_reason"]
    envs.send(np.zeros(1, int), [0])
    late = receive(envs, 1)[0]
    assert (late[1].tolist(), late[3].tolist(), late[4]["fault"]) == ([0], [True], True)
    envs.send(np.zeros(2, int), [0, 1])
    for _, reward, terminated, truncated, info in receive(envs, 2).values():
        assert (reward[0], terminated[0], truncated[0]) == (0, False, False)
        assert "fault" not in info


def test_a_setter_that_needs_an_episode_is_called_again(make: Any) -> None:
    class Late(Toy):
        @property
        def speed(self) -> int:
            return self._speed

        @speed.setter
        def speed(self, value: int) -> None:
            if not hasattr(self, "count"):
                raise RuntimeError("no episode yet")
            self._speed = value

    envs = make(fns(2, Late), 1, workers=1)
    envs.reset(seed=0)
    envs.set_attr("speed", [3, 4])
    os.kill(envs._workers[0]._process.pid, signal.SIGKILL)
    for _ in range(3):
        envs.send(np.zeros(2, int))
        receive(envs, 2)
    assert envs.get_attr("speed") == (3, 4)


def test_too_many_faults_raise(make: Any) -> None:
    envs = make(fns(4, Dies), 2, max_faults=2)
    envs.reset(seed=0)
    actions = np.array([0, 2, 0, 0])
    with pytest.raises(arrayferry.errors.WorkerError, match="environments 0 to 1 failed 2 times in a row"):
        send_for_ever(envs, actions)
    with pytest.raises(arrayferry.errors.UnsupportedError, match="async_reset"):
        envs.recv()
    compare_alone(envs, fns(4, Toy), batches=10)


def send_for_ever(envs: Any, actions: Any) -> None:
    while True:
        envs.send(actions)
        receive(envs, envs.num_envs)


def test_an_exception_is_raised_and_a_reset_goes_on(make: Any) -> None:
    class Raises(Toy):
        def _misbehave(self) -> None:
            if self.index == 1:
                raise KeyError("a wheel is off")

    envs = make(fns(4, Raises), 2)
    envs.reset(seed=0)
    envs.send(np.array([0, 2, 0, 0]))
    with pytest.raises(KeyError, match="a wheel is off"):
        receive(envs, 4)
    with pytest.raises(arrayferry.errors.UnsupportedError, match="async_reset"):
        envs.send(np.zeros(1, int), [0])
    envs.single_action_space.seed(0)
    compare_alone(envs, fns(4, Toy), batches=1)


def test_an_interrupt_while_waiting_changes_nothing(make: Any, tmp_path: Path) -> None:
    """Ctrl-C in `recv`, and `recv` again."""
    envs = make(fns(2, Gated), 2)
    envs.reset(seed=0)
    envs.set_attr("file", tmp_path / "go on")
    sync = SyncVectorEnv(fns(2))
    sync.reset(seed=0)

    def interrupt(*_: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    rest = envs._rest
    try:
        for _ in range(3):
            (tmp_path / "go on").unlink(missing_ok=True)
            envs.send(np.zeros(2, int))
            envs._rest = lambda *arguments: (os.kill(os.getpid(), signal.SIGALRM), rest(*arguments))
            with pytest.raises(Interrupted):
                envs.recv()
            envs._rest = rest
            (tmp_path / "go on").touch()
            rows, expected = receive(envs, 2), sync.step(np.zeros(2, int))
            for index, row in rows.items():
                assert_equal(plain(row), plain(row_of(expected, index)))
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("call", ["send", "recv", "async_reset", "masked"])
def test_an_interrupt_at_any_line_leaves_no_wrong_row(make: Any, call: str) -> None:
    mask = np.array([False, True, False, False])
    calls = {
        "send": lambda: envs.send(np.zeros(4, int)),
        "recv": lambda: envs.recv(),
        "async_reset": lambda: envs.async_reset(seed=3),
        "masked": lambda: envs.async_reset(options={"reset_mask": mask}),
    }
    envs = make(max_faults=1000)
    for line in range(1, 160, 13):
        envs.async_reset(seed=1)
        receive(envs, 4)
        if call == "recv":
            envs.send(np.zeros(4, int))
        with suppress(Interrupted):
            Lines(line).run(calls[call])
        compare_alone(envs, fns(), batches=4)


# --- what it returns, and what is refused


def test_timeouts(make: Any, tmp_path: Path) -> None:
    envs = make(fns(4, Gated), 4, workers=4)
    envs.reset(seed=0)
    envs.set_attr("file", tmp_path / "go on")
    envs.send(np.zeros(4, int))
    while len(envs._ready) < 3:
        envs._wait(3)
    obs, reward, *_, info = envs.recv(timeout=0)
    assert (len(obs), len(reward)) == (3, 3)
    assert sorted(info["env_id"]) == [1, 2, 3]
    with pytest.raises(arrayferry.errors.WorkerError, match="no environment has answered") as caught:
        envs.recv(timeout=0.01)
    assert isinstance(caught.value, TimeoutError)
    (tmp_path / "go on").touch()
    assert envs.recv()[4]["env_id"].tolist() == [0]
    with pytest.raises(gym.error.NoAsyncCallError, match="async_reset"):
        envs.recv()


@pytest.mark.parametrize("observes", ["box", "dict", "sequence"])
def test_a_padded_batch_always_has_the_same_size(make: Any, observes: str) -> None:
    envs = make(fns(4, observes=observes), 3)
    envs.reset(seed=0)
    envs.send(np.zeros(2, int), [1, 3])
    obs, reward, terminated, truncated, info = envs.recv(pad=True)
    assert len(reward) == len(terminated) == len(truncated) == 3
    assert sorted(info["env_id"]) == [1, 3, 4]
    assert info["_env_id"].tolist() == [True, True, False]
    assert reward[2] == 0
    assert len(info["count"]) == len(info["_count"]) == 3
    assert not info["_count"][2]
    first, last = (row_of((obs, reward, info), place)[0] for place in (0, 2))
    assert_equal(first, last)
    envs.send(np.zeros(3, int), info["env_id"])
    assert sorted(envs.recv()[4]["env_id"]) == [1, 3]


def test_what_it_returns_is_the_caller_s(make: Any) -> None:
    envs = make(fns(4), 4)
    envs.async_reset(seed=0)
    first = envs.recv()
    kept = first[0].copy()
    envs.send(np.zeros(4, int), first[4]["env_id"])
    second = envs.recv()
    assert np.array_equal(first[0], kept)
    for array in (*first[:4], first[4]["env_id"]):
        array[...] = 1
    assert not np.array_equal(first[0], second[0])


def test_actions_become_members(make: Any) -> None:
    """As with `wrap`, whatever the framework's own integers are."""
    envs = make(fns(4), 2)
    envs.reset(seed=0)
    for actions in (np.array([1, 0], np.int32), [1, 0], np.array([1, 0], np.uint8)):
        envs.send(actions, [0, 3])
        receive(envs, 2)
        assert envs.run_on([0, 3], lambda env: type(env.seen[-1])) == (np.int64, np.int64)
    boxes = make(fns(4, acts="box"), 2)
    boxes.reset(seed=0)
    boxes.send(np.zeros((2, 2), np.float64), [2, 1])
    receive(boxes, 2)
    assert boxes.call("seen")[1][0].dtype == np.float32


@pytest.mark.parametrize(
    ("actions", "env_id", "what"),
    [
        ([0], [4.0], r"env_id=\[4.0\] is not valid"),
        ([0], [True], r"env_id=\[True\] is not valid"),
        ([0], 1, "env_id=1 is not valid"),
        ([0], [5], "env_id has 5"),
        ([0], [-1], "env_id has -1"),
        ([0, 0], [1, 1], "names an environment twice"),
        ([0], [2], "environment 2 is under way"),
        ([0, 0], [1], "2 actions for 1"),
        ([0], [0, 1], "1 actions for 2"),
        (None, [0], "None are no batch"),
        (0, [0], "0 are no batch"),
    ],
)
def test_what_cannot_be_sent_is_refused(make: Any, actions: Any, env_id: Any, what: str) -> None:
    envs = make()
    envs.reset(seed=0)
    envs.send(np.zeros(1, int), [2])
    with pytest.raises(arrayferry.FerryError, match=what):
        envs.send(actions, env_id)
    assert 2 in receive(envs, 1)
    envs.send(np.zeros(4, int))
    assert [row[4].get("count", 2) for row in receive(envs, 4).values()].count(1) == 2


@pytest.mark.parametrize(("actions", "env_id"), [([0], [4, 1]), ([0, 0, 0], [0, 4])])
def test_a_padded_batch_needs_as_many_actions(make: Any, actions: Any, env_id: Any) -> None:
    envs = make()
    envs.reset(seed=0)
    with pytest.raises(arrayferry.errors.OptionError, match="actions for 2 environments"):
        envs.send(actions, env_id)
    envs.send([0, 0], [1, 4])
    assert list(receive(envs, 1)) == [1]


def test_a_step_of_all_is_not_that_of_some(make: Any) -> None:
    envs = make()
    envs.reset(seed=0)
    envs.step(np.zeros(4, int))
    envs.send([0], [1])
    with pytest.raises(gym.error.NoAsyncCallError, match="1 of 4 environments under way"):
        envs.step_wait()  # whose other rows would be those of the first step
    assert list(receive(envs, 1)) == [1]
    envs.step_async(np.zeros(4, int))
    received = envs.recv()[4]["env_id"]
    with pytest.raises(gym.error.NoAsyncCallError, match="2 of 4"):
        envs.step_wait()
    envs.send([0, 0], received)
    assert len(envs.step_wait()[1]) == 4


class Numbered(Toy):
    """Its infos have a key of `recv`."""

    def step(self, action: Any) -> Any:
        *values, info = super().step(action)
        return *values, info | ({"env_id": "mine"} if self.index == 1 else {})


def test_infos_of_the_same_name_as_the_ids_are_refused(make: Any) -> None:
    envs = make(fns(4, Numbered))
    envs.reset(seed=0)
    envs.send([0], [1])
    with pytest.raises(arrayferry.FerryError, match=r"info of environment 1: .*mine(.|\n)*no key 'env_id'"):
        envs.recv()
    envs.async_reset(seed=0)
    assert sorted(receive(envs, 4)) == [0, 1, 2, 3]
    assert envs.step(np.zeros(4, int))[4]["env_id"][1] == "mine"


def test_calls_that_need_all_wait_for_all(make: Any) -> None:
    envs = make()
    with pytest.raises(arrayferry.errors.UnsupportedError, match="async_reset"):
        envs.send(np.zeros(4, int))
    envs.async_reset(seed=0)
    for call in (
        lambda: envs.step(np.zeros(4, int)),
        envs.reset,
        lambda: envs.get_attr("index"),
        envs.render,
    ):
        with pytest.raises(gym.error.AlreadyPendingCallError, match="recv"):
            call()
    mask = np.array([True, False, False, False])
    with pytest.raises(gym.error.AlreadyPendingCallError, match="environment 0 is under way"):
        envs.async_reset(options={"reset_mask": mask})
    receive(envs, 4)
    assert envs.get_attr("index") == (0, 1, 2, 3)
    assert envs.step(np.zeros(4, int))[1].tolist() == [1 / 3] * 4
    envs.send(np.zeros(4, int))
    envs.async_reset(seed=5)  # forgets what is under way
    assert_equal(
        {index: row[0] for index, row in receive(envs, 4).items()}.keys(), {0: 0, 1: 0, 2: 0, 3: 0}.keys()
    )
    compare_alone(envs, fns(), batches=10)


@pytest.mark.parametrize("size", [0, 5, 1.5, True])
def test_wrong_sizes_are_refused(make: Any, size: Any) -> None:
    with pytest.raises(arrayferry.errors.OptionError, match="batch_size"):
        make(batch_size=size)


@pytest.mark.parametrize("timeout", ["1", math.nan, -1, [1]])
def test_wrong_timeouts_are_refused(make: Any, timeout: Any) -> None:
    envs = make()
    envs.async_reset(seed=0)
    with pytest.raises(arrayferry.errors.OptionError, match="timeout="):
        envs.recv(timeout)
    assert sorted(receive(envs, 4)) == [0, 1, 2, 3]


def test_closing_ends_what_is_under_way(make: Any, tmp_path: Path) -> None:
    with no_workers_are_left():
        envs = make(fns(4, Gated), 2)
        envs.reset(seed=0)
        envs.set_attr("file", tmp_path / "never")
        envs.send(np.zeros(4, int))
        envs.close(timeout=0.1)
        with pytest.raises(gym.error.ClosedEnvironmentError):
            envs.recv()


def test_it_says_who_waits(make: Any) -> None:
    envs = make()
    envs.async_reset(seed=0)
    receive(envs, 4)
    times = envs.wait_times()
    assert 0 <= times.learner <= times.total
    assert 0 <= times.workers <= times.total
    assert all(map(math.isfinite, times))


# --- through wrap


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax", "array_api_strict"])
def test_every_framework_sends_and_receives(make: Any, framework: str) -> None:
    """Actions of the agent's own integers, and `env_id` as it came, with the sanitizer watching."""
    pytest.importorskip(framework)
    bare, envs = make(fns(4), 4), arrayferry.wrap(make(fns(4), 4), framework, sanitize="raise")
    for vector in (bare, envs):
        vector.async_reset(seed=3)
    for _ in range(12):
        expected, found = bare.recv(), envs.recv(timeout=60)
        order, own = (np.argsort(arrayferry.convert(one[4]["env_id"], "numpy")) for one in (expected, found))
        assert type(found[0]) is type(found[4]["env_id"]) is type(arrayferry.convert(np.zeros(1), framework))
        for one, other in zip(expected[:4], arrayferry.convert(found[:4], "numpy")):
            np.testing.assert_array_equal(one[order].astype(other.dtype), other[own])  # JAX has no float64
        bare.send(np.ones(4, int), expected[4]["env_id"])
        envs.send(arrayferry.convert(np.ones(4, np.int32), framework), found[4]["env_id"])
    assert arrayferry.findings(envs).ok
    assert arrayferry.findings(envs).steps == 12
    receive(bare, 4)
    envs.recv(timeout=60)
    assert envs.get_attr("seen") == bare.get_attr("seen")
    assert {type(action) for seen in envs.get_attr("seen") for action in seen} == {np.int64}


def test_the_sanitizer_watches_batches(make: Any) -> None:
    class Spoils(Toy):
        def step(self, action: Any) -> Any:
            obs, *others = super().step(action)
            return obs * (np.nan if self.index == 2 else 1), *others

    envs = arrayferry.wrap(make(fns(4, Spoils), 1, workers=4), "numpy", sanitize="raise")
    envs.async_reset(seed=0)
    with pytest.raises(arrayferry.sanitizer.SanitizerError, match="NaN"):
        go_round(envs)


def go_round(envs: Any) -> None:
    while True:
        envs.send(np.zeros(1, int), envs.recv()[4]["env_id"])


def test_a_padded_batch_keeps_its_shape_in_a_compiled_policy(make: Any) -> None:
    jax = pytest.importorskip("jax")
    envs = arrayferry.wrap(make(fns(5), 3), "jax")
    traces = []

    @jax.jit
    def policy(returns: Any, reward: Any, info: Any) -> Any:
        traces.append(reward.shape)
        return returns.at[info["env_id"]].add(reward), jax.numpy.zeros(3, int)

    returns = jax.numpy.zeros(5)
    envs.async_reset(seed=0)
    for _ in range(20):
        _, reward, _, _, info = envs.recv(timeout=60, pad=True)
        ids = {"env_id": info["env_id"], "_env_id": info["_env_id"]}
        returns, actions = policy(returns, reward, ids)
        envs.send(actions, info["env_id"])
    assert traces == [(3,)]
