"""Whatever interrupts the driver, wherever: no row is ever that of an earlier request."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from gymnasium.vector import SyncVectorEnv

from scale import interrupts

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="has other signals"),
    # A signal handler may raise in a finalizer, too, which Python reports and goes on.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", params=[interrupts.NEXT_STEP, interrupts.SAME_STEP, interrupts.DISABLED])
def envs(request: pytest.FixtureRequest) -> Iterator[Any]:
    envs = interrupts.make(request.param)
    yield envs
    envs.close()


@pytest.mark.parametrize("is_dead", [False, True], ids=["alive", "dead"])
@pytest.mark.parametrize("call", interrupts.CALLS)
def test_an_interrupt_at_a_line(envs: Any, call: str, is_dead: bool) -> None:
    """A few lines each; all of them are goal R25."""
    count = interrupts.count_lines(envs, call, is_dead)
    for line in random.Random(call).sample(range(1, count + 1), 2 if is_dead else 4):
        interrupts.interrupt_at(envs, call, is_dead, line)


@pytest.mark.parametrize(
    "numbers",
    [[signal.SIGINT], [signal.SIGINT] * 2, [signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]],
    ids=lambda numbers: " ".join(signal.Signals(number).name for number in numbers),
)
def test_signals_whose_handlers_raise(envs: Any, numbers: list[int]) -> None:
    chance = random.Random(len(numbers))
    for seed in range(4):
        gaps = [chance.uniform(0.0005, 0.012) for _ in numbers]
        interrupts.interrupt_by_signals(envs, numbers, gaps, seed)


class Interrupts(interrupts.Witness):
    """Interrupts the driver in a step, and goes on when a file exists."""

    def __init__(self, index: int, driver: int, file: Path) -> None:
        super().__init__(index)
        self.driver, self.file = driver, file

    def step(self, action: Any) -> Any:
        if self.index == 1 and not self.file.exists():
            os.kill(self.driver, signal.SIGTERM)
            while not self.file.exists():
                time.sleep(0.001)
        return super().step(action)


def test_a_second_interrupt_when_a_worker_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody takes what the worker, which is still alive, answers to the first request."""
    driver, file, kill = os.getpid(), tmp_path / "go on", BaseProcess.kill
    env_fns = [lambda index=index: Interrupts(index, driver, file) for index in range(4)]
    envs, sync = interrupts.ProcessVectorEnv(env_fns, workers=2), SyncVectorEnv(env_fns)

    def interrupt(*_: Any) -> None:
        raise interrupts.Interrupted

    def interrupt_once(_: Any) -> None:
        monkeypatch.setattr(BaseProcess, "kill", kill)
        interrupt()

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        envs.reset(seed=0)
        monkeypatch.setattr(BaseProcess, "kill", interrupt_once)
        with pytest.raises(interrupts.Interrupted):
            envs.step(interrupts.ACTIONS)
        file.touch()
        with suppress(interrupts.Interrupted):  # if only now a worker is killed
            envs.reset(seed=1)
        interrupts.assert_same(envs.reset(seed=2), sync.reset(seed=2))
        for _ in range(3):
            interrupts.assert_same(envs.step(interrupts.ACTIONS), sync.step(interrupts.ACTIONS))
    finally:
        signal.signal(signal.SIGTERM, before)
        envs.close()


@pytest.mark.parametrize("interrupt", [interrupts.interrupt_making, interrupts.interrupt_closing])
def test_an_interrupt_leaves_no_worker(interrupt: Any) -> None:
    for line in (1, 30, 60, 90, 120, 160, 200, 300):
        interrupt(line)


def test_a_worker_that_an_interrupt_has_cost_has_no_fault() -> None:
    envs = interrupts.ProcessVectorEnv(interrupts.env_fns(), workers=2, max_faults=1)
    try:
        for line in (80, 100):
            envs.reset(seed=0)
            with pytest.raises(interrupts.Interrupted):
                interrupts.Lines(line).run(lambda: envs.step(interrupts.ACTIONS))
            for _ in range(2):
                assert "fault" not in envs.reset(seed=0)[1]
    finally:
        envs.close()


def test_no_episode_comes_again_after_an_interrupt() -> None:
    envs = interrupts.make()
    try:
        episodes = [envs.reset(seed=0)[0]]
        for _ in range(3):
            envs.step(interrupts.ACTIONS)
            with pytest.raises(interrupts.Interrupted):
                interrupts.Lines(60).run(lambda: envs.step(interrupts.ACTIONS))
            episodes.append(envs.reset()[0])
        for row in range(interrupts.NUM_ENVS):
            assert len({episode[row].tobytes() for episode in episodes}) == 4
    finally:
        envs.close()
