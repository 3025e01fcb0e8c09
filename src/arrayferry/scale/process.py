"""`ProcessVectorEnv`: environments in worker processes that may die."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import util as _  # noqa: F401
from typing import TYPE_CHECKING, Any, cast

from gymnasium.vector import AutoresetMode

from arrayferry._frameworks.jax import has_started
from arrayferry.errors import OptionError, WorkerError
from arrayferry.scale._block import Block, index_of, order_memory
from arrayferry.scale._driver import LATE, Request, Worker, warn_of_failure
from arrayferry.scale._line import Line, SharedMemory
from arrayferry.scale._script import handing_over_script
from arrayferry.scale._vector import WorkerVectorEnv, kill_all
from arrayferry.scale._worker import Channel, Task, work

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["CONTEXT", "ProcessVectorEnv"]

# How processes are started unless somebody says otherwise: a fork would wait for JAX's threads forever.
CONTEXT = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
# What the server that forks them imports.
_PRELOAD = "arrayferry.scale._preload"
# The seconds to read an answer that has arrived, even if waiting for others took all the time.
_READ_TIMEOUT = 5.0
# How long to wait for a process that was killed: it may be in the middle of a system call.
_KILL_TIMEOUT = 5.0


class ProcessVectorEnv(WorkerVectorEnv):
    """A vector environment whose workers step several environments each, in shared memory.

    It returns what `SyncVectorEnv` returns, for any number of workers. What it returns is the caller's own.

    A worker that dies, or takes longer than `step_timeout`, is replaced, and its environments report a
    *fault*: reward 0, terminated False, truncated True, `info["fault"]` True and `info["fault_reason"]`. A
    fault is not a transition: leave it out of what you learn from. With NEXT_STEP the row shows its last
    observation, and the next step shows the successor's first. With SAME_STEP it shows the successor's first,
    and `final_obs` is the last one seen. With DISABLED it shows the last one, until you reset it. The
    successor's seeds derive from the seed, the environment's index and the number of workers it has had, so
    that neither a crash nor an episode is repeated.

    The successor has the attributes that `set_attr` has set, and the seed and options of a reset under way.

    An environment's exception is raised as it is; after that, or after Ctrl-C, call `reset` before the next
    step. Environments are made in the workers only. Workers end with the vector environment or its program.

    Args:
        env_fns: functions that make the environments.
        workers: how many processes, at most one per environment; None for one per core.
        batch_size: how many environments `recv` returns, the first that are ready; None for all of them.
        autoreset_mode: what happens when an episode ends.
        step_timeout: the number of seconds after which a worker that does not answer is replaced.
        restart_timeout: how many seconds a worker has to start and make its environments.
        max_faults: how many faults of one worker, without a good step between them, raise a `WorkerError`.
        context: how they start: `"forkserver"`, `"spawn"` (the default on Windows) or `"fork"`.

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
        *,
        workers: int | None = None,
        batch_size: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        step_timeout: float = 60,
        restart_timeout: float = 120,
        max_faults: int = 3,
        context: str = CONTEXT,
    ) -> None:
        timeouts = step_timeout, restart_timeout
        super().__init__(env_fns, workers, batch_size, autoreset_mode, *timeouts, max_faults)
        if context not in (known := multiprocessing.get_all_start_methods()):
            raise OptionError(f"context={context!r} is not valid", f"pass one of {', '.join(known)}")
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            # Python refuses this too, but only after making semaphores, which leak when the worker is killed.
            raise WorkerError("this script starts workers when a worker imports it", _GUARD)
        if context == "fork" and has_started():
            what = 'context="fork" after JAX has started: a worker would wait for its threads forever'
            raise OptionError(what, 'pass context="forkserver" or "spawn"')
        if context == "forkserver":
            _let_server_import()
        multiprocess: Any = multiprocessing.get_context(context)
        self._done = multiprocess.Semaphore(0)
        tasks = self._tasks(env_fns, workers or _cores())
        self._start([_Worker(multiprocess, task, self._done, self._is_async) for task in tasks])

    def _make_block(self) -> Block:
        memory = SharedMemory(Block.size(*self._single_spaces, self.num_envs))
        block = Block.over(memory.map, *self._single_spaces, self.num_envs)
        for worker in cast("Sequence[_Worker]", self._workers):
            worker.attach(memory, block)
        return block

    def _answers(self) -> tuple[list[int], dict[int, Any]]:
        block = self._block
        while self._done.acquire(block=False):
            pass
        (rows,) = (block.answered == block.asked).nonzero()
        if not rows.size:
            return [], {}
        order_memory()
        with_message = rows[block.has_message[rows]].tolist()
        return rows.tolist(), {row: cast("_Worker", self._worker_of[row]).read(row) for row in with_message}

    def _rest(self, missing: int, seconds: float) -> None:
        self._block.wanted[0] = missing
        order_memory()
        if self._block.count_answered() < missing:
            self._done.acquire(timeout=seconds)


_GUARD = 'in a script, make the environments under `if __name__ == "__main__":`'


class _Launch:
    """A worker process that is being started, and what its driver keeps of it."""

    def __init__(self, context: Any, task: Task, done: Any, number: int, is_row_by_row: bool) -> None:
        self._context, self._task, self._rest = context, task, (number, is_row_by_row)
        self._done = done
        nothing: Any = None
        self.process = self.line = self.lifeline = self.go = nothing
        self.error: BaseException | None = None
        self._is_over = threading.Event()

    def run(self) -> None:
        """Start the process.

        In a thread, where no signal handler runs: one that raises in the middle of it would end the fork
        server, and with it all workers. A fork is better made without a second thread.
        """
        if self._context.get_start_method() == "fork":
            self._run()
        else:
            threading.Thread(target=self._run).start()
            self._is_over.wait()

    def _run(self) -> None:
        context = self._context
        try:
            mine, theirs = socket.socketpair()
            self.line = Line(mine)
            lifeline, self.lifeline = context.Pipe(duplex=False)
            self.go = context.Semaphore(0)
            arguments = self._task, Channel(self.go, self._done, theirs, *self._rest), lifeline
            self.process = context.Process(target=work, args=arguments, daemon=True)
            with theirs, lifeline, handing_over_script():
                self.process.start()
        except BaseException as error:
            self.error = error
        finally:
            self._is_over.set()

    def kill(self) -> None:
        """End the process immediately; it ends anyway when nobody has the other end of its lifeline."""
        self._is_over.wait(_KILL_TIMEOUT)
        if self.lifeline is not None:
            self.lifeline.close()
        if self.process is not None and self.process.pid is not None:
            self.process.kill()
            self.process.join(_KILL_TIMEOUT)
        if self.line is not None:
            self.line.close()


class _Worker(Worker):
    """The driver's side of a worker process.

    Args:
        context: how it is started.
        task: what it is to do.
        done: what it releases when as many rows have answered as the driver wants.
        is_row_by_row: whether it answers for each row as soon as that is done.
    """

    def __init__(self, context: Any, task: Task, done: Any, is_row_by_row: bool) -> None:
        super().__init__(task)
        self._context, self._done, self._is_row_by_row = context, done, is_row_by_row
        self._memory: SharedMemory | None = None
        self._launch: _Launch | None = None
        self._rests: dict[int, Any] = {}  # that came with those of other rows
        _WORKERS.add(self)

    @property
    def start_hint(self) -> str:
        """What to do about a worker that does not start."""
        program = getattr(sys.modules["__main__"], "__file__", None)
        if program is not None and not os.path.exists(program):
            return f'a worker cannot import {program}: save the program in a file, or pass context="fork"'
        return f"its own error is above; {_GUARD}"

    def launch(self) -> None:
        """Start a process, with a channel of its own: a dead one may have left the last in any state."""
        self._rests = {}
        first = self.number + 1, self._is_row_by_row
        self._launch = launch = _Launch(self._context, self.task, self._done, *first)
        launch.run()
        # If a successor cannot be started, that is one more fault.
        if launch.error is not None and not (
            self.successors and isinstance(launch.error, (EOFError, OSError))
        ):
            what = f"a worker process could not be started ({type(launch.error).__name__})"
            raise WorkerError(what, self.start_hint) from launch.error
        self._process, self._line, self._go = launch.process, launch.line, launch.go
        self._share()

    def attach(self, memory: SharedMemory, block: Block) -> None:
        """Share the block with it, and with its successors."""
        self._memory, self.block = memory, block
        self._share()

    def _share(self) -> None:
        if self._memory is None:  # it is made when the first workers have started
            return
        with suppress(OSError):  # it is dead, and `trouble` will say so
            self._memory.send(self._line.socket)

    def has_started(self) -> bool:
        """Return whether `wait_until_ready` returns at once."""
        return self._line.has_message() or not self._process.is_alive()

    def wait_until_ready(self, seconds: float) -> Any:
        """Wait for the environments; return their description, a `Failure`, or why there are none."""
        try:
            data = self._line.receive(time.monotonic() + seconds, self._process.is_alive)[1]
        except TimeoutError:
            return (
                f"a worker did not start: it had not made its environments after {self.restart_timeout:.0f} s"
            )
        except (EOFError, OSError):
            return f"a worker did not start: it ended with exit code {self._exit_code()}"
        return pickle.loads(data)

    def send(self, request: Request) -> None:
        """Send a request, whose number goes into the rows that it asks."""
        index = index_of(request.rows)
        self.block.has_message[index] = request.call is not None
        self.block.asked[index] = request.number
        self._go.release()
        if request.call is not None:
            try:
                self._line.send(request.number, request.call, time.monotonic() + self.timeout)
            except TimeoutError:
                self.loss = LATE
            except OSError:
                pass  # it is dead, and `trouble` will say so

    def read(self, row: int) -> Any:
        """Return the rest of a row's answer, or why it is lost; throw away answers to other requests."""
        deadline = max(self.since + self.timeout, time.monotonic() + _READ_TIMEOUT)
        try:
            while row not in self._rests:
                number, data = self._line.receive(deadline, self._process.is_alive)
                for other, rest in pickle.loads(data).items():
                    if number == self.block.asked[other]:
                        self._rests[other] = rest
        except TimeoutError:
            return LATE
        except (EOFError, OSError):
            return f"the worker died (exit code {self._exit_code()})"
        return self._rests.pop(row)

    def trouble(self, now: float) -> str | None:
        """Return why it will not answer, if that is certain or it is too late."""
        if not self._process.is_alive():
            return f"the worker died (exit code {self._exit_code()})"
        return LATE if now > self.since + self.timeout else None

    def _exit_code(self) -> Any:
        if self._process.pid is not None:  # otherwise the fork server could not start it
            self._process.join(1)
        return self._process.exitcode

    def end(self, deadline: float) -> None:
        """Wait until the process has ended; read its answers, which would keep it from ending."""
        number, data = 0, bytearray()
        with suppress(EOFError, OSError):
            while True:
                number, data = self._line.receive(deadline, self._process.is_alive)
        self._process.join(max(deadline - time.monotonic(), 0))
        if number == self.number:
            warn_of_failure(pickle.loads(data)[self.rows[0]])

    def kill(self) -> None:
        """End the process immediately."""
        if self._launch is not None:
            self._launch.kill()

    def disown(self) -> None:
        """Forget the process, in a process that was forked from its driver."""
        self.is_closed, self.is_ready = True, False
        if self._launch is not None and self._launch.lifeline is not None:
            self._launch.lifeline.close()  # this copy would keep the worker alive
        self._launch = None


_WORKERS: weakref.WeakSet[_Worker] = weakref.WeakSet()


def _disown_all() -> None:
    for worker in list(_WORKERS):
        worker.disown()


# Runs before what `multiprocessing` has registered, which is imported above: that asks workers to end, and
# waits for those that refuse.
atexit.register(kill_all, _WORKERS)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)


def _let_server_import() -> None:
    """Let the server that forks workers import what they need, and the script, once.

    There is no public way to ask what the user lets it import. If the private one is gone, Python's default
    is assumed. A server that is already running does not change.
    """
    from multiprocessing import forkserver  # not on all platforms

    known = list(getattr(getattr(forkserver, "_forkserver", None), "_preload_modules", ["__main__"]))
    if _PRELOAD not in known:
        multiprocessing.set_forkserver_preload([*known, _PRELOAD])


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
