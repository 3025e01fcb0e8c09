"""Programs that let go of their workers in different ways: `python endings.py dropped forkserver`.

Each prints the process ids of its workers, and whatever it finds wrong.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from arrayferry.scale import ProcessVectorEnv

CONTEXTS = ["forkserver", "spawn", "fork"]
ACTIONS = np.zeros(2, int)
envs: Any = None  # what a program still has when it ends


class Stubborn(gym.Wrapper[Any, Any, Any, Any]):
    """Does not end when it is asked to; its steps never end, or leave a child that keeps the line open."""

    def __init__(self, how: str) -> None:
        super().__init__(gym.make("CartPole-v1"))
        self.how = how
        signal.signal(signal.SIGTERM, lambda number, frame: None)

    @property
    def pid(self) -> int:
        return os.getpid()

    def step(self, action: Any) -> Any:
        if self.how == "hangs":
            time.sleep(1000)
        if self.how == "holds the GIL":
            ctypes.PyDLL(None).sleep(1000)
        if self.how == "leaves a child":
            if not os.fork():
                stay()
            os._exit(1)
        return self.env.step(action)


def stay() -> None:
    """Stay until `run` ends this process."""
    os.write(1, f"stays {os.getpid()}\n".encode())
    time.sleep(1000)
    os._exit(0)


def make(context: str, how: str = "steps", **options: Any) -> ProcessVectorEnv:
    envs = ProcessVectorEnv([lambda: Stubborn(how)] * 2, workers=2, context=context, **options)
    envs.reset(seed=0)
    print("workers", *envs.call("pid"), flush=True)
    return envs


def is_alive(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def dropped(context: str) -> None:
    pids: list[int] = []
    for _ in range(3):  # as in a cell that is run again
        envs = make(context)
        pids += envs.call("pid")
    del envs
    assert not any(map(is_alive, pids)), "alive after they were dropped"


def exits(context: str) -> None:
    global envs
    envs = make(context)


def exits_during_a_step(context: str) -> None:
    global envs
    envs = make(context, "hangs")
    threading.Thread(target=envs.step, args=(ACTIONS,), daemon=True).start()
    time.sleep(0.2)


def is_killed(context: str) -> None:
    envs = make(context, "holds the GIL")
    envs.step_async(ACTIONS)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


def is_killed_and_has_a_child(context: str) -> None:
    envs = make(context)
    if not os.fork():
        envs.close()  # the copy in a child is nobody's
        del envs
        stay()
    envs.step_async(ACTIONS)
    assert "fault" not in envs.step_wait()[4], "a child has closed its parent's environments"
    os.kill(os.getpid(), signal.SIGKILL)


def thread_ends(context: str) -> None:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(make(context)))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert "fault" not in made[0].step(ACTIONS)[4], "the workers ended with the thread"
    made[0].close()


def assert_closed(envs: Any) -> None:
    try:
        envs.step(ACTIONS)
    except gym.error.ClosedEnvironmentError:
        return
    raise AssertionError("a step of closed environments")


def closed_by_a_thread(context: str) -> None:
    envs = make(context, "hangs")
    thread = threading.Thread(target=assert_closed, args=(envs,))
    thread.start()
    time.sleep(0.2)
    envs.close()
    thread.join()
    assert not multiprocessing.active_children(), "close() started workers"


def closed_by_a_handler(context: str) -> None:
    envs = make(context, "hangs")
    signal.signal(signal.SIGALRM, lambda number, frame: envs.close())
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    assert_closed(envs)
    assert not multiprocessing.active_children(), "close() started workers"


def child_of_a_worker_stays(context: str) -> None:
    envs = make(context, "leaves a child", step_timeout=10)
    assert envs.step(ACTIONS)[4]["fault"].all()  # and does not wait for the child, which has the line, too
    envs.close()


ENDINGS: dict[str, Callable[[str], None]] = {
    function.__name__: function
    for function in [
        dropped,
        exits,
        exits_during_a_step,
        is_killed,
        is_killed_and_has_a_child,
        thread_ends,
        closed_by_a_thread,
        closed_by_a_handler,
        child_of_a_worker_stays,
    ]
}


def run(ending: str, context: str) -> None:
    """Run a program, and raise if it is wrong or leaves a worker alive."""
    command = [sys.executable, __file__, ending, context]
    with tempfile.TemporaryFile("w+") as file:  # a pipe would be kept open by what stays
        done = subprocess.run(command, stdout=file, timeout=100)
        file.seek(0)
        words = [line.split() for line in file]
    for pid in [int(pid) for kind, *pids in words for pid in pids if kind == "stays"]:
        os.kill(pid, signal.SIGKILL)
    assert done.returncode in (0, -signal.SIGKILL), (ending, context, words)
    workers = [int(pid) for kind, *pids in words for pid in pids if kind == "workers"]
    assert workers, (ending, context)
    deadline = time.monotonic() + 20
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline, f"{ending}, {context}: a worker is alive"
        time.sleep(0.01)


if __name__ == "__main__":
    ENDINGS[sys.argv[1]](sys.argv[2])
