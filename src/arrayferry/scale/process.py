"""`ProcessVectorEnv`: environments in worker processes that may die."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from arrayferry.errors import OptionError, UnsupportedError, WorkerError
from arrayferry.scale._block import Block, copy_into, map_arrays
from arrayferry.scale._worker import CALL, STEP, Channel, Failure, Task, work

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["ProcessVectorEnv"]

# How often a driver that waits looks whether the worker is still alive.
_LOOK = 0.02
# A worker that starts imports all that its environments need.
_START_TIMEOUT = 120.0


class ProcessVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector environment whose workers step several environments each, in shared memory.

    It returns what `SyncVectorEnv` returns, for any number of workers. What it returns is the caller's own.

    A worker that dies, or takes longer than `step_timeout`, is replaced, and its environments report a
    *fault*: reward 0, terminated False, truncated True, `info["fault"]` True and `info["fault_reason"]`. A
    fault is no transition: leave it out of what you learn from. With NEXT_STEP the row shows its last
    observation, and the next step the successor's first. With SAME_STEP it shows the successor's first, and
    `final_obs` is the last one seen. With DISABLED it shows the last one, until you reset it. The successor's
    seeds follow from the seed, the environment and the number of faults, so that a crash is not played again.

    An exception of an environment is raised as it is, and after it only `reset` goes on.

    Args:
        env_fns: functions that make the environments.
        workers: how many processes; None for one for each core, at most one for each environment.
        context: how they start: `"forkserver"`, `"spawn"` or `"fork"`.
        autoreset_mode: what happens when an episode ends.
        step_timeout: the seconds after which a worker that does not answer is replaced.
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
        context: str = "forkserver",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        step_timeout: float = 60,
        max_faults: int = 3,
    ) -> None:
        self.num_envs = len(env_fns)
        if not env_fns:
            raise OptionError("env_fns is empty", "pass a function for each environment")
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self._timeout, self._max_faults = step_timeout, max_faults
        self._workers: list[_Worker] = []
        self._describe(env_fns[0])
        count = min(workers or os.cpu_count() or 1, self.num_envs)
        self._context: Any = multiprocessing.get_context(context)
        spaces = self.single_observation_space, self.single_action_space
        self._memory = self._context.RawArray("b", Block.size(*spaces, self.num_envs))
        self._block = Block.over(self._memory, *spaces, self.num_envs)
        self._half, self._needs_reset, self._pending = 0, True, False
        self._seeds: list[int | None] = [None] * self.num_envs
        self._slow_obs: list[Any] = [None] * self.num_envs  # of spaces without a fixed shape
        bounds = np.linspace(0, self.num_envs, count + 1).round().astype(int).tolist()
        for start, stop in itertools.pairwise(bounds):
            task = Task(
                _pickled(env_fns[start:stop]), slice(start, stop), self.num_envs, self.autoreset_mode, *spaces
            )
            self._workers.append(_Worker(self._context, task, self._memory))
        try:
            for worker in self._workers:  # all start at once
                worker.start()
            for worker in self._workers:
                self._greet(worker)
        except BaseException:
            self.close()
            raise

    def _describe(self, env_fn: Callable[[], gym.Env[Any, Any]]) -> None:
        env = env_fn()
        self.metadata = {**env.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = env.render_mode
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space
        self.observation_space = batch_space(env.observation_space, self.num_envs)
        self.action_space = batch_space(env.action_space, self.num_envs)
        env.close()

    def _greet(self, worker: _Worker) -> None:
        found = worker.greeting()
        for name, mine, theirs in zip(("observation", "action"), self._single_spaces, found):
            if mine != theirs:
                what = f"environment {worker.rows.start} has the {name} space {theirs}, the first one {mine}"
                raise UnsupportedError(what, "all environments of a vector have the same spaces")

    @property
    def _single_spaces(self) -> tuple[Any, Any]:
        return self.single_observation_space, self.single_action_space

    # ---- steps and resets ------------------------------------------------------------------------------

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Start a step, and return while the workers are at it."""
        self._check_idle()
        if self._needs_reset:
            raise UnsupportedError("step before reset, or after an environment's exception", "call reset()")
        self._half ^= 1
        is_in_block = self._block.actions is not None and copy_into(self._block.actions, actions)
        one_by_one = None if is_in_block else list(iterate(self.action_space, actions))
        for worker in self._workers:
            if worker.is_fresh:  # its environments have had no episode yet
                self._ask_reset(worker)
            elif one_by_one is None:
                worker.ask(STEP, self._half)
            else:
                worker.ask(CALL, self._half, ("step", (self._batched(one_by_one[worker.rows]),), {}))
        self._pending = True

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Wait for the step that was started."""
        if not self._pending:
            raise UnsupportedError("step_wait without a step", "call step_async(actions) first")
        self._pending = False
        infos: dict[str, Any] = {}
        for worker, answer in self._answers():
            rows = worker.rows
            if isinstance(answer, str):
                infos = self._show_fault(worker, answer, infos)
                continue
            if worker.is_fresh:
                self._block.rewards[rows] = 0
                self._block.terminated[rows] = self._block.truncated[rows] = False
            worker.is_fresh, worker.faults_in_a_row = False, 0
            infos = self._take(worker, answer, infos)
        block = self._block
        return (
            self._observations(),
            block.rewards.copy(),
            block.terminated.copy(),
            block.truncated.copy(),
            infos,
        )

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of `options["reset_mask"]`."""
        self._check_idle()
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        if mask is not None:
            _check_mask(mask, self.num_envs)
            if self._needs_reset:
                raise UnsupportedError("a reset of some before one of all", "call reset() without a mask")
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is None:
            seeds = [None] * self.num_envs
        if len(seeds) != self.num_envs:
            raise OptionError(f"{len(seeds)} seeds for {self.num_envs} environments", "pass one for each")
        self._half ^= 1
        asked = []
        for worker in self._workers:
            rows = worker.rows
            if mask is not None and not mask[rows].any():
                self._keep_last(rows)
                continue
            some = {} if mask is None else {"reset_mask": mask[rows].copy()}
            if worker.is_fresh and mask is not None:  # those that are not reset need an observation
                self._finish_reset(worker)
            worker.is_fresh = False
            worker.ask(CALL, self._half, ("reset", (seeds[rows], {**options, **some} or None), {}))
            asked.append(worker)
        for index, one in enumerate(seeds):
            if mask is None or mask[index]:
                self._seeds[index] = one
        self._needs_reset = False
        infos: dict[str, Any] = {}
        for worker, answer in self._answers(asked):
            while isinstance(answer, str):
                infos = self._add_fault(worker, answer, infos)
                answer = self._reset_successor(worker)
            infos = self._take(worker, answer, infos)
        return self._observations(), infos

    def _answers(self, workers: list[_Worker] | None = None) -> list[tuple[_Worker, Any]]:
        """Wait for all workers; return their answers, or why there is none. Raise what one has raised."""
        found = self._collect(workers or self._workers)
        for _, answer in found:
            if isinstance(answer, Failure):
                self._needs_reset = True
                for worker, other in found:
                    if isinstance(other, str):
                        self._replace(worker, other)
                raise answer.error
        return found

    def _collect(self, workers: list[_Worker]) -> list[tuple[_Worker, Any]]:
        deadline = time.monotonic() + self._timeout
        try:
            return [(worker, worker.answer(deadline)) for worker in workers]
        except BaseException:  # Ctrl-C: a late answer would be taken for that of the next step
            self._needs_reset = True
            for worker in workers:
                worker.kill()
            raise

    def _take(self, worker: _Worker, answer: Any, infos: dict[str, Any]) -> dict[str, Any]:
        if answer is None:
            return infos
        obs, found = answer
        if obs is not None:
            self._slow_obs[worker.rows] = list(iterate(self._batch_of(worker.rows), obs))
        return _merged(infos, found, worker.rows, self.num_envs)

    def _observations(self) -> Any:
        now = self._block.observations[self._half]
        if now is not None:
            return map_arrays(np.copy, now)
        empty: Any = create_empty_array(self.single_observation_space, self.num_envs)
        return concatenate(self.single_observation_space, self._slow_obs, empty)

    def _keep_last(self, rows: slice) -> None:
        """Show the last observations again."""
        halves = self._block.observations
        if halves[0] is not None:
            now, last = (
                map_arrays(lambda array: array[rows], halves[i]) for i in (self._half, self._half ^ 1)
            )
            copy_into(now, last)

    def _batched(self, actions: list[Any]) -> Any:
        empty: Any = create_empty_array(self.single_action_space, len(actions))
        return concatenate(self.single_action_space, actions, empty)

    # ---- faults ----------------------------------------------------------------------------------------

    def _show_fault(self, worker: _Worker, reason: str, infos: dict[str, Any]) -> dict[str, Any]:
        rows, block = worker.rows, self._block
        self._keep_last(rows)
        last = map_arrays(lambda array: array[rows].copy(), block.observations[self._half])
        infos = self._add_fault(worker, reason, infos)
        block.rewards[rows], block.terminated[rows], block.truncated[rows] = 0, False, True
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            return infos
        singles = self._slow_obs[rows] if last is None else list(iterate(self._batch_of(rows), last))
        answer = self._reset_successor(worker)
        while isinstance(answer, str):
            infos = self._add_fault(worker, answer, infos)
            answer = self._reset_successor(worker)
        for index, one in zip(range(rows.start, rows.stop), singles):
            infos = self._add_info(infos, {"final_obs": one, "final_info": {}}, index)
        return self._take(worker, answer, infos)

    def _batch_of(self, rows: slice) -> Any:
        return batch_space(self.single_observation_space, rows.stop - rows.start)

    def _add_fault(self, worker: _Worker, reason: str, infos: dict[str, Any]) -> dict[str, Any]:
        """Replace a worker, and tell of it; raise if that was too often."""
        self._replace(worker, reason)
        for index in range(worker.rows.start, worker.rows.stop):
            infos = self._add_info(infos, {"fault": True, "fault_reason": reason}, index)
        return infos

    def _replace(self, worker: _Worker, reason: str) -> None:
        worker.kill()
        worker.faults, worker.faults_in_a_row = worker.faults + 1, worker.faults_in_a_row + 1
        if worker.faults_in_a_row >= self._max_faults:
            self._needs_reset = True
            worker.faults_in_a_row = 0
            worker.start()
            rows = f"environments {worker.rows.start} to {worker.rows.stop - 1}"
            what = f"the worker of {rows} failed {self._max_faults} times in a row, the last time: {reason}"
            raise WorkerError(what, "step these environments alone to see why, or raise max_faults")
        worker.start()

    def _ask_reset(self, worker: _Worker) -> None:
        seeds = [
            self._seed_after_faults(i, worker.faults) for i in range(worker.rows.start, worker.rows.stop)
        ]
        worker.ask(CALL, self._half, ("reset", (seeds, None), {}))

    def _seed_after_faults(self, index: int, faults: int) -> int | None:
        seed = self._seeds[index]
        if seed is None:
            return None
        return int(np.random.SeedSequence([seed, index, faults]).generate_state(1)[0])

    def _reset_successor(self, worker: _Worker) -> Any:
        self._ask_reset(worker)
        worker.is_fresh = False
        answer = worker.answer(time.monotonic() + self._timeout)
        if isinstance(answer, Failure):
            self._needs_reset = True
            raise answer.error
        return answer

    def _finish_reset(self, worker: _Worker) -> None:
        while isinstance(answer := self._reset_successor(worker), str):
            self._replace(worker, answer)
        self._take(worker, answer, {})

    # ---- the environments themselves -------------------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each environment, or get an attribute."""
        return self._call_all("call", [(name, *args)] * len(self._workers), kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment: one value for all, or a list with one for each."""
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise OptionError(f"{len(values)} values for {self.num_envs} environments", "pass one for each")
        self._call_all("set_attr", [(name, list(values[worker.rows])) for worker in self._workers], {})

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame of each environment."""
        return self._call_all("render", [()] * len(self._workers), {})

    def _call_all(
        self, name: str, arguments: list[tuple[Any, ...]], options: dict[str, Any]
    ) -> tuple[Any, ...]:
        self._check_idle()
        for worker, one in zip(self._workers, arguments):
            worker.ask(CALL, self._half, (name, one, options))
        found = self._collect(self._workers)
        answers = [answer for _, answer in found]
        for worker, answer in found:
            if isinstance(answer, str):
                worker.kill()  # so that the next step tells of it, too, and takes no late answer for its own
                what = f"{name} of environments {worker.rows.start} to {worker.rows.stop - 1}: {answer}"
                raise WorkerError(what, "call reset() or step(), which replace the worker")
        for answer in answers:
            if isinstance(answer, Failure):
                raise answer.error
        return tuple(one for answer in answers for one in (answer[0] or ()))

    def _check_idle(self) -> None:
        if self.closed:
            raise UnsupportedError("the environments are closed", "make new ones")
        if self._pending:
            raise UnsupportedError("a step is not finished", "call step_wait() first")

    def close_extras(self, **kwargs: Any) -> None:
        """End all workers: those that do not end by themselves are killed."""
        for worker in self._workers:
            worker.say_goodbye()
        deadline = time.monotonic() + 2
        for worker in self._workers:
            worker.end(deadline)


class _Worker:
    """The driver's side of a worker process."""

    def __init__(self, context: Any, task: Task, memory: Any) -> None:
        self._context, self._task, self._memory = context, task, memory
        self.rows, self.faults, self.faults_in_a_row = task.rows, 0, 0
        self.is_fresh, self._has_greeted = False, False
        self._process: Any = None

    def start(self) -> None:
        """Start a process; `greeting` waits for it."""
        self.is_fresh, self._has_greeted = self._process is not None, False
        context = self._context
        mine, theirs = context.Pipe()
        # New ones each time: a dead worker may have left the old ones in any state.
        self._channel = Channel(context.Semaphore(0), context.Semaphore(0), context.RawArray("q", 3), mine)
        arguments = self._task, self._memory, self._channel._replace(pipe=theirs)
        self._process = context.Process(target=work, args=arguments, daemon=True)
        try:
            self._process.start()
        except (EOFError, OSError) as error:
            raise _start_error(f"it could not be started ({type(error).__name__})") from error
        theirs.close()

    def greeting(self) -> tuple[Any, Any]:
        """Wait until the environments are made; return their spaces."""
        pipe = self._channel.pipe
        connection.wait([pipe, self._process.sentinel], _START_TIMEOUT)
        try:
            found = pipe.recv() if pipe.poll() else None
        except (EOFError, OSError):
            found = None
        if found is None:
            self._process.join(1)
            raise _start_error(f"it ended with exit code {self._process.exitcode}")
        if isinstance(found, Failure):
            raise found.error
        self._has_greeted = True
        spaces: tuple[Any, Any] = found
        return spaces

    def ask(
        self, what: int, half: int, call: tuple[str, tuple[Any, ...], dict[str, Any]] | None = None
    ) -> None:
        """Ask for a step, or for the call of a method."""
        channel = self._channel
        channel.numbers[:] = [what, half, 0]
        channel.go.release()
        if call is not None:
            try:
                channel.pipe.send(call)
            except OSError:  # it is dead; the answer will say so
                return

    def answer(self, deadline: float) -> Any:
        """Wait for what was asked: None if all is in the block; a `Failure`; or why there is no answer."""
        channel = self._channel
        if channel.pipe.closed:  # killed, and what it had answered before is about another step
            return f"the worker died (exit code {self._process.exitcode})"
        try:
            if not self._has_greeted:  # to start takes its own time
                waiting = time.monotonic()
                self.greeting()
                deadline += time.monotonic() - waiting
            while not channel.done.acquire(timeout=_LOOK):
                if not self._process.is_alive() and not channel.done.acquire(block=False):
                    return f"the worker died (exit code {self._process.exitcode})"
                if time.monotonic() > deadline:
                    return "the worker did not answer in time"
            if not channel.numbers[2]:
                return None
            if not channel.pipe.poll(max(deadline - time.monotonic(), 0)):
                return "the worker did not answer in time"
            return channel.pipe.recv()
        except (EOFError, OSError):
            self._process.join(1)
            return f"the worker died (exit code {self._process.exitcode})"
        except WorkerError as error:
            return error.what

    def say_goodbye(self) -> None:
        """Ask the worker to close its environments and end."""
        if self._process is not None and self._has_greeted and self._process.is_alive():
            self.ask(CALL, 0, ("close", (), {}))

    def end(self, deadline: float) -> None:
        """Wait until the process has ended, and kill it if it does not."""
        if self._process is None:
            return
        if self._process.pid is not None:
            self._process.join(max(deadline - time.monotonic(), 0) if self._has_greeted else 0)
            self.kill()

    def kill(self) -> None:
        """End the process at once."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self._channel.pipe.close()


def _pickled(env_fns: Sequence[Any]) -> bytes:
    try:
        found: bytes = cloudpickle.dumps(list(env_fns))
    except Exception as error:
        what = f"env_fns cannot be sent to a worker ({type(error).__name__}: {error})"
        raise UnsupportedError(what, "make what they need inside of them, not outside") from error
    return found


def _start_error(what: str) -> WorkerError:
    hint = 'its own error is above; in a script, make the environments under `if __name__ == "__main__":`'
    return WorkerError(f"a worker did not start: {what}", hint)


def _check_mask(mask: Any, count: int) -> None:
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (count,) or not mask.any():
        what = f"reset_mask={mask!r}"
        raise OptionError(what, f"it is a NumPy array of {count} bools, of which at least one is True")


def _merged(infos: dict[str, Any], part: dict[str, Any], rows: slice, count: int) -> dict[str, Any]:
    """Put the infos of some environments into those of all."""
    for key, value in part.items():
        if isinstance(value, dict):
            infos[key] = _merged(infos.get(key, {}), value, rows, count)
            continue
        if key not in infos:
            fill = None if value.dtype == object else 0
            infos[key] = np.full((count, *value.shape[1:]), fill, value.dtype)
        infos[key][rows] = value
    return infos
