"""`ProcessVectorEnv`: environments in worker processes that may die."""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from gymnasium.vector import AutoresetMode

from arrayferry._frameworks.jax import has_started
from arrayferry.errors import OptionError, WorkerError
from arrayferry.scale._arguments import counted, make_env, split
from arrayferry.scale._block import Block
from arrayferry.scale._driver import Description, Worker, warn_of_failure
from arrayferry.scale._faults import WorkerVectorEnv
from arrayferry.scale._pickling import Failure, pickled
from arrayferry.scale._worker import CALL, STEP, Channel, Task, work

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["CONTEXT", "ProcessVectorEnv"]

# How processes are started unless somebody says otherwise: a fork would wait for JAX's threads forever.
CONTEXT = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
# How often, in seconds, a waiting driver checks whether the worker is still alive.
_POLL_SECONDS = 0.02
# A worker that starts imports everything that its environments need.
_START_TIMEOUT = 120.0
# A message of at most this many bytes is in a pipe whole, or not at all; a larger one may be there in part.
_WHOLE = 4096
# The seconds to read a large answer that has arrived, even if waiting for others took all the time.
_READ_TIMEOUT = 5.0


class ProcessVectorEnv(WorkerVectorEnv):
    """A vector environment whose workers step several environments each, in shared memory.

    It returns what `SyncVectorEnv` returns, for any number of workers. What it returns is the caller's own.

    A worker that dies, or takes longer than `step_timeout`, is replaced, and its environments report a
    *fault*: reward 0, terminated False, truncated True, `info["fault"]` True and `info["fault_reason"]`. A
    fault is not a transition: leave it out of what you learn from. With NEXT_STEP the row shows its last
    observation, and the next step shows the successor's first. With SAME_STEP it shows the successor's first,
    and `final_obs` is the last one seen. With DISABLED it shows the last one, until you reset it. The
    successor's seeds derive from the seed, the environment's index and the number of faults, so that a crash
    is not repeated.

    An environment's exception is raised as it is; after that, call `reset` before the next step.

    Args:
        env_fns: functions that make the environments.
        workers: how many processes, at most one per environment; None for one per core.
        context: how they start: `"forkserver"`, `"spawn"` (the default on Windows) or `"fork"`.
        autoreset_mode: what happens when an episode ends.
        step_timeout: the number of seconds after which a worker that does not answer is replaced.
        max_faults: how many faults of one worker, without a good step between them, raise a `WorkerError`.

    Example:
        >>> import gymnasium as gym
        >>> from arrayferry.scale import ProcessVectorEnv
        >>> envs = ProcessVectorEnv([lambda: gym.make("CartPole-v1")] * 4, workers=2)
        >>> obs, info = envs.reset(seed=0)
        >>> obs.shape
        (4, 4)
        >>> envs.close()
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        workers: int | None = None,
        context: str = CONTEXT,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        step_timeout: float = 60,
        max_faults: int = 3,
    ) -> None:
        super().__init__(counted(env_fns), workers, autoreset_mode, step_timeout, max_faults)
        if context not in (known := multiprocessing.get_all_start_methods()):
            raise OptionError(f"context={context!r} is not valid", f"pass one of {', '.join(known)}")
        _refuse_while_importing()
        env = make_env(env_fns[0])
        try:
            self._describe(Description.of(env))
        finally:
            try:
                env.close()
            except Exception as error:
                warn_of_failure(Failure(error))
        if context == "fork" and has_started():
            what = 'context="fork" after JAX has started: a worker would wait for its threads forever'
            raise OptionError(what, 'pass context="forkserver" or "spawn"')
        if context == "forkserver":
            _preload()
        multiprocess: Any = multiprocessing.get_context(context)
        spaces = self._single_spaces
        memory = multiprocess.RawArray("b", Block.size(*spaces, self.num_envs))
        self._block = Block.over(memory, *spaces, self.num_envs)
        tasks = [
            Task(pickled(env_fns[rows]), rows, self.num_envs, self.autoreset_mode, *spaces)
            for rows in split(self.num_envs, workers or _cores())
        ]
        self._workers = [_Worker(multiprocess, task, memory, self._timeout) for task in tasks]
        self._start()


_GUARD = 'in a script, make the environments under `if __name__ == "__main__":`'


class _Worker(Worker):
    """The driver's side of a worker process."""

    start_hint = f"its own error is above; {_GUARD}"

    def __init__(self, context: Any, task: Task, memory: Any, step_timeout: float) -> None:
        super().__init__(task.rows)
        self._context, self._task, self._memory, self._timeout = context, task, memory, step_timeout
        self._process: Any = None

    def start(self) -> None:
        """Start a process; `wait_until_ready` waits for it."""
        self.is_fresh, self.is_ready = self._process is not None, False
        context = self._context
        mine, theirs = context.Pipe()
        # New ones each time: a dead worker may have left the old ones in any state.
        self._channel = Channel(context.Semaphore(0), context.Semaphore(0), context.RawArray("q", 3), mine)
        arguments = self._task, self._memory, self._channel._replace(pipe=theirs)
        self._process = context.Process(target=work, args=arguments, daemon=True)
        try:
            self._process.start()
        except (EOFError, OSError) as error:
            if not self.is_fresh:
                what = f"a worker process could not be started ({type(error).__name__})"
                raise WorkerError(what, self.start_hint) from error
            mine.close()  # killed while it started: one more fault, which `answer` reports
        theirs.close()

    def wait_until_ready(self) -> Any:
        """Wait for the environments; return their spaces, a `Failure`, or why there are none."""
        pipe, deadline = self._channel.pipe, time.monotonic() + _START_TIMEOUT
        late = f"a worker did not start: its environments were not made within {_START_TIMEOUT:.0f} seconds"
        if pipe.closed:  # it was killed
            return f"the worker died (exit code {self._process.exitcode})"
        if not connection.wait([pipe, self._process.sentinel], _START_TIMEOUT):
            return late
        try:
            with self._killed_at(deadline):
                data = pipe.recv_bytes() if pipe.poll() else None
        except TimeoutError:
            return late
        except (EOFError, OSError):
            data = None
        if data is None:
            self._process.join(1)
            return f"a worker did not start: it ended with exit code {self._process.exitcode}"
        found = pickle.loads(data)
        self.is_ready = not isinstance(found, Failure)
        return found

    def ask(self, half: int, name: str, call: bytes | None = None) -> None:
        """Ask for a method call; without one, for a step with the actions in the block."""
        channel = self._channel
        channel.numbers[:] = [STEP if call is None else CALL, half, 0]
        channel.go.release()
        if call is not None:
            with suppress(OSError), self._killed_at(time.monotonic() + self._timeout, len(call)):
                channel.pipe.send_bytes(call)  # if it is dead, the answer will say so

    def reply(self, deadline: float) -> Any:
        """Wait as `answer` does, for a worker that has started."""
        channel = self._channel
        try:
            while not channel.done.acquire(timeout=_POLL_SECONDS):
                if not self._process.is_alive():
                    if channel.done.acquire(block=False):  # it answered before it died
                        break
                    return f"the worker died (exit code {self._process.exitcode})"
                if time.monotonic() > deadline:
                    return "the worker did not answer in time"
            if not (size := channel.numbers[2]):
                return None
            if not channel.pipe.poll(max(deadline - time.monotonic(), 0)):
                return "the worker did not answer in time"
            with self._killed_at(max(deadline, time.monotonic() + _READ_TIMEOUT), size):
                data = channel.pipe.recv_bytes()
        except TimeoutError:
            return "the worker did not answer in time"
        except (EOFError, OSError):
            self._process.join(1)
            return f"the worker died (exit code {self._process.exitcode})"
        return pickle.loads(data)

    def request_close(self) -> None:
        """Ask the worker to close its environments and end."""
        if self._process is not None and self.is_ready and self._process.is_alive():
            self.ask(0, "close", self.pack("close"))

    def end(self, deadline: float) -> None:
        """Wait until the process has ended, and kill it if it does not."""
        if self._process is None or self._process.pid is None:
            return
        pipe, sentinel, data = self._channel.pipe, self._process.sentinel, None
        if self.is_ready:
            # An answer that nobody reads would keep it from ending.
            with suppress(EOFError, OSError), self._killed_at(deadline):
                while pipe in connection.wait([pipe, sentinel], max(deadline - time.monotonic(), 0)):
                    data = pipe.recv_bytes()
            self._process.join(max(deadline - time.monotonic(), 0))
        self.kill()
        found = None
        with suppress(Exception):  # it may be an earlier answer, which need not unpickle
            found = None if data is None else pickle.loads(data)
        warn_of_failure(found)

    @contextmanager
    def _killed_at(self, deadline: float, size: float = math.inf) -> Iterator[None]:
        """Kill the process and raise a `TimeoutError` if a message of this size is not through by a deadline.

        This end of the pipe would wait for the rest of a message as long as a stopped process is alive.
        """
        if size <= _WHOLE:
            yield
            return
        is_late = threading.Event()

        def kill() -> None:
            is_late.set()
            self._process.kill()

        timer = threading.Timer(max(deadline - time.monotonic(), 0), kill)
        timer.start()
        try:
            yield
        except (EOFError, OSError):
            if is_late.is_set():
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
            timer.join()

    def kill(self) -> None:
        """End the process immediately."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self._channel.pipe.close()
        self.is_ready = False  # what it has answered belongs to another step


def _refuse_while_importing() -> None:
    """Raise in a worker that imports its script, which would start workers of its own.

    Python refuses this too, but only after making semaphores, which leak when the worker is killed.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise WorkerError("this script starts workers when a worker imports it", _GUARD)


def _preload() -> None:
    """Let the server that forks workers import what they need once: a successor starts 10 times faster.

    There is no public way to ask what the user lets it import. If the private one is gone, Python's default
    is assumed. A server that is already running does not change.
    """
    from multiprocessing import forkserver  # not on all platforms

    known = list(getattr(getattr(forkserver, "_forkserver", None), "_preload_modules", ["__main__"]))
    if work.__module__ not in known:
        multiprocessing.set_forkserver_preload([*known, work.__module__])


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
