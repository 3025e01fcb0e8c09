"""`ProcessVectorEnv` returns what `SyncVectorEnv` returns, and goes on when a worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
        made.append(ProcessVectorEnv(env_fns or fns(), workers, context, **options))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


def assert_equal(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other) or set(one) == set(other)
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


def test_seeds_and_options(make: Any) -> None:
    ours, theirs = make(), SyncVectorEnv(fns())
    for seed in (None, 3, [1, 2, 3, None]):
        ours.reset(seed=seed, options={"level": 2})
        theirs.reset(seed=seed, options={"level": 2})
        assert ours.get_attr("last_seed") == theirs.get_attr("last_seed")
        assert ours.get_attr("options") == ({"level": 2},) * 4
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


def test_steps_overlap_with_the_caller(make: Any) -> None:
    envs = make()
    envs.reset(seed=0)
    envs.step_async(np.zeros(4, int))
    for forbidden in (lambda: envs.step_async(np.zeros(4, int)), envs.reset, lambda: envs.get_attr("index")):
        with pytest.raises(arrayferry.FerryError, match="step_wait"):
            forbidden()
    assert len(envs.step_wait()) == 5
    with pytest.raises(arrayferry.FerryError, match="step_async"):
        envs.step_wait()


def test_a_step_before_reset_is_refused(make: Any) -> None:
    with pytest.raises(arrayferry.FerryError, match="call reset"):
        make().step(np.zeros(4, int))


def test_different_spaces_are_refused(make: Any) -> None:
    mixed = [*fns(2), lambda: Toy(2, "discrete")]
    with pytest.raises(arrayferry.FerryError, match="environment 2 has the observation space"):
        make(mixed, workers=3)


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


def test_a_worker_that_dies_in_a_call(make: Any) -> None:
    envs = make(workers=4)
    envs.reset(seed=0)
    os.kill(envs._workers[2]._process.pid, signal.SIGKILL)
    with pytest.raises(arrayferry.errors.WorkerError, match="environments 2 to 2"):
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

    def interrupted(deadline: float) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(envs._workers[1], "answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            envs.step(np.zeros(4, int))
    with pytest.raises(arrayferry.FerryError, match="call reset"):
        envs.step(np.zeros(4, int))
    _, infos = envs.reset(seed=11)
    assert infos["fault"].all()
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


def test_an_exception_is_raised_as_it_is_and_reset_goes_on(make: Any) -> None:
    envs = make(fns(kind=Raises), 2)
    envs.reset(seed=0)
    with pytest.raises(KeyError, match="a wheel is off") as caught:
        die(envs)
    if sys.version_info >= (3, 11):
        assert "in _misbehave" in "".join(caught.value.__notes__)
    with pytest.raises(arrayferry.FerryError, match="call reset"):
        envs.step(np.zeros(4, int))
    assert_equal(envs.reset(seed=11), SyncVectorEnv(fns()).reset(seed=11))
    assert envs.step(np.zeros(4, int))[1].shape == (4,)


def test_close_always_returns_and_leaves_no_process() -> None:
    for context in ("spawn", "forkserver"):
        envs = ProcessVectorEnv(fns(kind=Hangs), 4, context)
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
import gymnasium as gym
from arrayferry.scale import ProcessVectorEnv
{guard}
    envs = ProcessVectorEnv([lambda: gym.make("CartPole-v1")] * 2, 2, {context!r})
    envs.reset(seed=0)
    for worker in envs._workers:
        semaphores = [one._semlock.name for one in (worker._channel.go, worker._channel.done)]
        print(worker._process.pid, *semaphores, flush=True)
    if "die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    envs.close()
"""


def run_script(folder: Path, context: str, guard: str, *arguments: str) -> Any:
    file = folder / "script.py"
    file.write_text(SCRIPT.format(guard=guard, context=context))
    return subprocess.run([sys.executable, file, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_a_script_without_a_guard_is_told_what_to_write(tmp_path: Path, context: str) -> None:
    done = run_script(tmp_path, context, "if True:")
    assert done.returncode == 1
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]
    assert run_script(tmp_path, context, 'if __name__ == "__main__":').returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /dev/shm and /proc")
@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_nothing_is_left_when_the_driver_is_killed(tmp_path: Path, context: str) -> None:
    done = run_script(tmp_path, context, 'if __name__ == "__main__":', "die")
    words = done.stdout.split()
    traces = [Path(f"/dev/shm/sem.{word[1:]}" if word[0] == "/" else f"/proc/{word}") for word in words]
    assert len(traces) == 6
    while any(trace.exists() for trace in traces):  # until the test's time is over
        time.sleep(0.1)
