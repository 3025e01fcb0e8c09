"""Interrupt a driver anywhere, and compare what its workers say afterwards with `SyncVectorEnv`."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import arrayferry.scale
from arrayferry.scale import ProcessVectorEnv

NUM_ENVS, WORKERS = 4, 2
NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
SCALE = str(Path(arrayferry.scale.__file__).parent)


class Witness(gym.Env[Any, Any]):
    """Observes how it was reset, what was set, and how often it was stepped; odd ones also tell, in infos."""

    observation_space = spaces.Box(-1, 2**62, (4, 50), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, index: int) -> None:
        self.index, self.level, self.count, self.draw, self.option = index, 0, 0, 0, 0

    @property
    def pid(self) -> int:
        return os.getpid()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count, self.option = 0, (options or {}).get("option", 0)
        self.draw = int(self.np_random.integers(2**60))
        return self._observe(), self._tell()

    def step(self, action: Any) -> Any:
        self.count += 1
        return self._observe(), float(self.count + action), self.count == 5 + self.index, False, self._tell()

    def render(self) -> Any:
        return np.full((2, 2, 3), self.count, np.uint8)

    def _observe(self) -> Any:
        return np.repeat([[self.draw], [self.level], [self.option], [self.count]], 50, axis=1)

    def _tell(self) -> dict[str, Any]:
        return {"count": self.count, "large": bytes(20_000)} if self.index % 2 else {}


def env_fns() -> list[Any]:
    return [lambda index=index: Witness(index) for index in range(NUM_ENVS)]


@contextmanager
def no_workers_are_left() -> Iterator[None]:
    before = set(multiprocessing.active_children())
    yield
    gc.collect()  # what an exception has held
    assert set(multiprocessing.active_children()) <= before, "a worker is alive"


def interrupt_making(line: int) -> None:
    """Raise at a line while a vector environment is made; nothing may be left of it."""
    with no_workers_are_left(), suppress(Interrupted):
        Lines(line).run(lambda: make().close())


def interrupt_closing(line: int) -> None:
    """Raise at a line while one is closed; it can be closed again."""
    with no_workers_are_left():
        envs = make()
        envs.reset(seed=0)
        with suppress(Interrupted):
            Lines(line).run(envs.close)
        envs.close()


class Interrupted(BaseException):
    """What is raised at a line."""


class Lines:
    """Counts the lines of the driver that are run, and raises at one of them."""

    def __init__(self, raise_at: int | None = None) -> None:
        self.count, self._raise_at, self._pid = 0, raise_at, os.getpid()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SCALE) or os.getpid() != self._pid:
            return None
        return self._trace_lines

    def _trace_lines(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self._raise_at:
                raise Interrupted(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        return self._trace_lines

    def run(self, action: Callable[[], Any]) -> None:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            action()
        finally:
            sys.settrace(before)


def kill(envs: Any, index: int = 1) -> None:
    """Kill the worker of an environment, and wait until it is dead."""
    pid = envs.call("pid")[index]
    os.kill(pid, signal.SIGKILL)
    wait_for_end([pid])


def is_alive(pid: int) -> bool:
    """Return whether a process exists, and is no zombie."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def wait_for_end(pids: Sequence[int]) -> None:
    """Wait until none of these processes is alive; the time of the test is the limit."""
    while any(map(is_alive, pids)):
        time.sleep(0.005)


MASK = np.array([False, True, False, False])
ACTIONS = np.array([0, 1, 0, 1])


def step_async_and_wait(envs: Any) -> None:
    envs.step_async(ACTIONS)
    envs.step_wait()


# What is interrupted; in all of them, a worker may be dead before.
CALLS: dict[str, Callable[[Any], Any]] = {
    "step": lambda envs: envs.step(ACTIONS),
    "step with actions of another dtype": lambda envs: envs.step([0, 1, 0, 1]),
    "step_async and step_wait": step_async_and_wait,
    "reset": lambda envs: envs.reset(seed=5, options={"option": 7}),
    "masked reset": lambda envs: envs.reset(seed=5, options={"option": 7, "reset_mask": MASK}),
    "get_attr": lambda envs: envs.get_attr("count"),
    "set_attr": lambda envs: envs.set_attr("level", [6, 7, 8, 9]),
    "render": lambda envs: envs.render(),
}


def check(envs: Any, seed: int, level: Any, is_dead: bool = False) -> None:
    """Reset and step on; all of it must be what environments say that were never interrupted.

    If a worker may be dead, the reset may report a fault, but the rows are those that were asked for.
    """
    reference: Any = SyncVectorEnv(env_fns(), autoreset_mode=envs.metadata["autoreset_mode"])
    reference.set_attr("level", level)
    with suppress(*[arrayferry.errors.WorkerError] * is_dead):
        envs.set_attr("level", level)
    options = {"option": seed}
    expected, found = reference.reset(seed=seed, options=options), envs.reset(seed=seed, options=options)
    for key in ("fault", "_fault", "fault_reason", "_fault_reason") * is_dead:
        found[1].pop(key, None)
    for _ in range(3):
        assert_same(found, expected)
        expected, found = reference.step(ACTIONS), envs.step(ACTIONS)
    assert_same(found, expected)


def assert_same(found: Any, expected: Any) -> None:
    *arrays, infos = found
    for array, other in zip(arrays, expected):
        assert array.dtype == other.dtype
        assert np.array_equal(array, other), (array, other)
    assert infos.keys() == expected[-1].keys()
    for key in infos:
        assert np.array_equal(infos[key], expected[-1][key]), key


def make(mode: AutoresetMode = NEXT_STEP, context: str = "forkserver", **options: Any) -> ProcessVectorEnv:
    options = {"workers": WORKERS, "context": context, "max_faults": 1000, **options}
    return ProcessVectorEnv(env_fns(), autoreset_mode=mode, **options)


def prepare(envs: Any, is_dead: bool) -> None:
    envs.reset(seed=1)
    envs.step(ACTIONS)
    if is_dead:
        kill(envs)


def count_lines(envs: Any, call: str, is_dead: bool) -> int:
    """Return how many lines of the driver a call runs; waiting may add a few."""
    prepare(envs, is_dead)
    lines = Lines()
    with suppress(arrayferry.FerryError):  # a call of a dead worker is an error
        lines.run(lambda: CALLS[call](envs))
    return lines.count


def interrupt_at(envs: Any, call: str, is_dead: bool, line: int) -> None:
    """Raise at a line of a call, and check what comes afterwards."""
    prepare(envs, is_dead)
    place: Any = "nowhere"
    try:
        Lines(line).run(lambda: CALLS[call](envs))
    except Interrupted as error:
        place = error
    except arrayferry.FerryError:
        pass
    with suppress(gym.error.NoAsyncCallError):  # after an interrupt between the two, the step is still there
        envs.step_wait()
    try:
        check(envs, 100 + line, [line, line + 1, line + 2, line + 3], is_dead)
    except Exception as error:
        raise AssertionError(f"{call}, interrupted at {place}: {error!r}") from error


@contextmanager
def signals(numbers: Sequence[int], gaps: Sequence[float]) -> Iterator[Callable[[], bool]]:
    """Send signals to this process, whose handlers raise, with gaps between them.

    The first is sent after the function that this gives was called, which returns whether more will come.
    """
    begin, is_over = threading.Event(), threading.Event()

    def interrupt(number: int, frame: Any) -> None:
        raise Interrupted(signal.Signals(number).name)

    def send() -> None:
        begin.wait()
        for number, gap in zip(numbers, gaps):
            time.sleep(gap)
            os.kill(os.getpid(), number)
        is_over.set()

    def go_on() -> bool:
        begin.set()
        return not is_over.is_set()

    before = {number: signal.signal(number, interrupt) for number in numbers}
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield go_on
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sender.join()


def interrupt_by_signals(envs: Any, numbers: Sequence[int], gaps: Sequence[float], seed: int) -> None:
    """Step and reset while signals arrive, and check what comes afterwards."""
    prepare(envs, is_dead=False)
    with signals(numbers, gaps) as go_on:
        is_over = False
        while not is_over:
            with suppress(Interrupted):
                while go_on():
                    envs.reset(seed=3)
                    for _ in range(4):
                        envs.step(ACTIONS)
                is_over = True
    check(envs, seed=seed, level=seed)
