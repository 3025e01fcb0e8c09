"""What all vector environments with workers share: steps, resets, and what happens when a worker fails."""

from __future__ import annotations

import itertools
import pickle
import time
import weakref
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from operator import methodcaller
from typing import Any, NamedTuple, NoReturn

import numpy as np
from gymnasium import error as gymnasium_errors
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from arrayferry._core.messages import count_of
from arrayferry.errors import OptionError, UnsupportedError, WorkerError
from arrayferry.scale._arguments import LONGEST_WAIT, check_spaces, seconds, validate_env_fns
from arrayferry.scale._block import Block, copy_into, map_arrays
from arrayferry.scale._driver import ClosedError, Description, State, Worker
from arrayferry.scale._pickling import Failure, pickled
from arrayferry.scale._worker import Task, call, render
from arrayferry.wrappers._autoreset import known_autoreset_mode
from arrayferry.wrappers._resets import mask_of, seeds_of

__all__ = ["WorkerVectorEnv", "kill_all"]


class _PendingError(UnsupportedError, gymnasium_errors.AlreadyPendingCallError):
    """What Gymnasium's users expect during a step."""


class _NoStepError(UnsupportedError, gymnasium_errors.NoAsyncCallError):
    """What Gymnasium's users expect from a `step_wait` without a `step_async`."""


class _Reset(NamedTuple):
    """What the caller of a reset asks for: a seed for each environment, which ones, and options."""

    seeds: Sequence[int | None]
    mask: Any = None
    options: dict[str, Any] | None = None


class WorkerVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector environment whose workers may die; their results are in a `Block`, wherever that is.

    Whatever interrupts a call (Ctrl-C, a signal handler that raises), the state that it leaves behind was
    recorded before: `_needs_reset` is True while a call runs, and a worker that is not `State.IDLE` after it
    is replaced by the next call, so that nobody ever reads what it answers.
    """

    _block: Block
    # Set here, like the next: `close` is called even if the options were refused.
    _workers: Sequence[Worker] = ()
    _timeout = 0.0
    _layer = 0  # so that workers within workers get other seeds

    def __init__(
        self, env_fns: Any, workers: Any, autoreset_mode: str | AutoresetMode, timeout: Any, max_faults: int
    ) -> None:
        self.num_envs = validate_env_fns(env_fns)
        if workers is not None:
            count_of("workers", workers, ", or None")
        self.autoreset_mode = known_autoreset_mode(autoreset_mode)
        self._timeout, self._max_faults = seconds("step_timeout", timeout), count_of("max_faults", max_faults)
        self._half, self._needs_reset, self._pending, self._in_use = 0, True, False, False
        self._seeds: list[int | None] = [None] * self.num_envs
        self._is_lost = np.zeros(self.num_envs, bool)  # by a fault, and only the caller resets it
        self._slow_obs: list[Any] = [None] * self.num_envs  # for spaces without a fixed shape

    def _tasks(self, env_fns: Sequence[Any], workers: int) -> list[Task]:
        """Return what each of some workers is to do."""
        bounds = np.linspace(0, self.num_envs, min(workers, self.num_envs) + 1).round().astype(int).tolist()
        parts = [slice(start, stop) for start, stop in itertools.pairwise(bounds)]
        shared = self.num_envs, self.autoreset_mode
        return [Task(pickled(env_fns[rows]), rows, *shared) for rows in parts]

    def _start(self, workers: Sequence[Worker]) -> None:
        """Start the workers, and learn from them what their environments are like."""
        self._workers = workers
        weakref.finalize(self, kill_all, workers).atexit = False
        try:
            for worker in workers:  # all start in parallel
                worker.timeout = self._timeout
                worker.start()
            for worker in workers:
                found = _checked(worker, worker.wait_until_ready())
                worker.state = State.IDLE
                if worker is workers[0]:
                    self._describe(found)
                worker.spaces = self._single_spaces
                check_spaces(worker.rows.start, found, worker.spaces)
            self._block = self._make_block()
            for worker in workers:
                worker.attach(self._block)
                worker.state = State.BUSY
                _checked(worker, worker.set_up())
                worker.state = State.IDLE
        except BaseException:
            self.close()
            raise

    def _describe(self, found: Description) -> None:
        self.metadata = {**found.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = found.render_mode
        self.single_observation_space, self.single_action_space = found.observation_space, found.action_space
        self.observation_space = batch_space(found.observation_space, self.num_envs)
        self.action_space = batch_space(found.action_space, self.num_envs)

    @abstractmethod
    def _make_block(self) -> Block:
        """Return the block, now that the spaces are known."""

    @property
    def _single_spaces(self) -> tuple[Any, Any]:
        return self.single_observation_space, self.single_action_space

    @contextmanager
    def _using_workers(self) -> Iterator[None]:
        """Check that the workers may be asked something, and replace those that an interrupt left busy."""
        self._check_open()
        if self._pending:
            raise _PendingError("a step is not finished", "call step_wait() first")
        with self._in_call():
            for worker in self._workers:
                if worker.state is State.BUSY:
                    worker.replace()
            yield

    @contextmanager
    def _in_call(self) -> Iterator[None]:
        """Let `close` know that it comes in the middle of something."""
        self._in_use = True
        try:
            yield
        finally:
            self._in_use = False

    def _check_open(self) -> None:
        if self.closed or self._workers[0].is_closed:
            raise ClosedError("the environments are closed", "make new ones")

    # ---- steps and resets ------------------------------------------------------------------------------

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        self._ask_step(actions)
        return self._finish_step()

    def step_async(self, actions: Any) -> None:
        """Start a step, and return while the workers take it."""
        self._ask_step(actions)
        self._pending = True  # last: whoever is interrupted before has no step to wait for

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Wait for the step that was started."""
        self._check_open()
        if not self._pending:
            raise _NoStepError("step_wait without a step", "call step_async(actions) first")
        self._pending = False
        return self._finish_step()

    def _ask_step(self, actions: Any) -> None:
        with self._using_workers():
            if self._needs_reset:
                what = "step before reset, or after an environment's exception or an interrupt"
                raise UnsupportedError(what, "call reset()")
            if self._is_lost.any():
                raise UnsupportedError("a step of an environment whose episode is over", "reset it first")
            calls: list[bytes | None] = [None] * len(self._workers)
            if not copy_into(self._block.actions, actions):
                count = sum(1 for _ in iterate(self.action_space, actions))
                if count != self.num_envs:
                    what = f"{count} actions for {self.num_envs} environments"
                    raise OptionError(what, "pass one for each")
                space = self.single_action_space
                parts = [_rows_of(space, actions, worker.rows) for worker in self._workers]
                calls = [worker.pack("step", part) for worker, part in zip(self._workers, parts)]
            self._needs_reset = True  # until all have answered
            self._half ^= 1
            for worker, call in zip(self._workers, calls):
                if worker.is_fresh:
                    worker.ask(self._half, "reset", self._packed_reset(worker))
                else:
                    worker.ask(self._half, "step", call)

    def _finish_step(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        infos: dict[str, Any] = {}
        with self._in_call():
            for worker, answer in self._answers(self._workers):
                rows = worker.rows
                if isinstance(answer, str):
                    infos = self._show_fault(worker, answer, infos)
                    continue
                if worker.is_fresh:  # it was reset, which does not count as a good step
                    self._block.rewards[rows] = 0
                    self._block.terminated[rows] = self._block.truncated[rows] = False
                    worker.is_fresh = False
                else:
                    worker.faults_in_a_row = 0
                infos = self._take(worker, answer, infos)
            block = self._block
            numbers = block.rewards.copy(), block.terminated.copy(), block.truncated.copy()
            observations = self._observations()
            self._needs_reset = False
        return observations, *numbers, infos

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of `options["reset_mask"]`."""
        with self._using_workers():
            mask = mask_of(options, self.num_envs)
            reset = _Reset(seeds_of(seed, self.num_envs), mask, options)
            if mask is not None and self._needs_reset and not mask.all():
                what = "a masked reset before the first full one, or after an exception or an interrupt"
                raise UnsupportedError(what, "call reset() without a mask")
            asked = [worker for worker in self._workers if mask is None or mask[worker.rows].any()]
            calls = [self._packed_reset(worker, reset) for worker in asked]
            self._needs_reset = True  # until all have answered
            infos: dict[str, Any] = {}
            for worker in asked:
                if mask is not None and worker.is_fresh:  # rows outside the mask need an observation
                    answer, infos = self._reset_until_alive(worker, self._reset_successor(worker), infos)
                    self._take(worker, answer, {})
            for index, row_seed in enumerate(reset.seeds):
                if row_seed is not None and (mask is None or mask[index]):  # without one, the last remains
                    self._seeds[index] = row_seed
            for worker, call in zip(asked, calls):
                worker.ask(self._half, "reset", call)
            for worker, answer in self._answers(asked):
                worker.is_fresh = False
                infos = self._take(worker, *self._reset_until_alive(worker, answer, infos, reset))
            self._is_lost[slice(None) if mask is None else mask] = False
            observations = self._observations()
            self._needs_reset = False
        return observations, infos

    def _packed_reset(self, worker: Worker, reset: _Reset | None = None) -> bytes:
        """Return the call that resets a worker's environments: as the caller asks, or a successor's alone."""
        reset = reset or _Reset([None] * self.num_envs)
        seeds, options = reset.seeds[worker.rows], reset.options
        if reset.mask is not None:
            options = {**(options or {}), "reset_mask": reset.mask[worker.rows]}
        if worker.is_fresh:
            own = self._new_seeds(worker)
            seeds = [mine if given is None else given for given, mine in zip(seeds, own)]
        return worker.pack("reset", seeds, options)

    def _answers(self, workers: Sequence[Worker]) -> list[tuple[Worker, Any]]:
        """Wait for all workers; return each answer, or why there is none. Raise what a worker has raised."""
        answers = self._collect(workers)
        for _, answer in answers:
            if isinstance(answer, Failure):
                raise answer.error
        return answers

    def _collect(self, workers: Sequence[Worker]) -> list[tuple[Worker, Any]]:
        deadline = time.monotonic() + self._timeout
        answers = {worker: worker.answer(deadline) for worker in self._by_arrival(workers, deadline)}
        self._check_open()  # those that another thread or a signal handler has closed have no fault
        for worker, answer in answers.items():
            if isinstance(answer, str):
                worker.stop(answer)  # it might still write to its rows
        return [(worker, answers[worker]) for worker in workers]

    def _by_arrival(self, workers: Sequence[Worker], deadline: float) -> Iterable[Worker]:
        """Return the workers, preferably those first that have answered."""
        return workers

    def _take(self, worker: Worker, answer: Any, infos: dict[str, Any]) -> dict[str, Any]:
        if answer is None:
            return infos
        obs, found = answer
        if obs is not None:
            self._slow_obs[worker.rows] = list(iterate(self._batch_of(worker.rows), obs))
        for index, info in found:  # one by one, in their order, so that the dtypes are Gymnasium's
            infos = self._add_info(infos, pickle.loads(info), worker.rows.start + index)
        return infos

    def _observations(self) -> Any:
        now = self._block.observations[self._half]
        if now is not None:
            return map_arrays(np.copy, now)
        empty: Any = create_empty_array(self.single_observation_space, self.num_envs)
        return concatenate(self.single_observation_space, deepcopy(self._slow_obs), empty)

    # ---- faults ----------------------------------------------------------------------------------------

    def _show_fault(self, worker: Worker, reason: str, infos: dict[str, Any]) -> dict[str, Any]:
        rows, block = worker.rows, worker.block
        worker.show_last(self._half)
        last = map_arrays(np.copy, block.observations[self._half])
        infos = self._add_fault(worker, reason, infos)
        block.rewards[:], block.terminated[:], block.truncated[:] = 0, False, True
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            return infos
        slow = last is None
        singles = deepcopy(self._slow_obs[rows]) if slow else iterate(self._batch_of(rows), last)
        for index, obs in enumerate(singles, rows.start):
            infos = self._add_info(infos, {"final_obs": obs, "final_info": {}}, index)
        return self._take(worker, *self._reset_until_alive(worker, self._reset_successor(worker), infos))

    def _batch_of(self, rows: slice) -> Any:
        return batch_space(self.single_observation_space, rows.stop - rows.start)

    def _add_fault(self, worker: Worker, reason: str, infos: dict[str, Any]) -> dict[str, Any]:
        """Replace a worker that was lost, and report the fault; raise if there were too many."""
        worker.faults_in_a_row += 1
        worker.replace()
        if worker.faults_in_a_row >= self._max_faults:
            worker.faults_in_a_row = 0
            often = f" {self._max_faults} times in a row, the last time" if self._max_faults > 1 else ""
            what = f"the worker of {worker} failed{often}: {reason}"
            raise WorkerError(what, "step these environments alone to see why, or raise max_faults")
        self._is_lost[worker.rows] = self.autoreset_mode is AutoresetMode.DISABLED
        for index in range(worker.rows.start, worker.rows.stop):
            infos = self._add_info(infos, {"fault": True, "fault_reason": reason}, index)
        return infos

    def _new_seeds(self, worker: Worker) -> list[int | None]:
        """Return the seeds for a successor: no other one, whatever it replaced, has had them."""
        seeds = self._seeds[worker.rows]
        for place, seed in enumerate(seeds):
            if seed is not None:
                words = [seed, worker.rows.start + place, worker.successors, self._layer]
                seeds[place] = int(np.random.SeedSequence(words).generate_state(1)[0])
        return seeds

    def _reset_successor(self, worker: Worker, reset: _Reset | None = None) -> Any:
        """Reset a successor: on its own, as the caller asks, or both if the caller leaves some rows out."""
        if reset is not None and reset.mask is not None:
            answer = self._reset_successor(worker)
            if isinstance(answer, str):
                return answer
            self._take(worker, answer, {})
        worker.ask(self._half, "reset", self._packed_reset(worker, reset))
        return self._answers([worker])[0][1]

    def _reset_until_alive(
        self, worker: Worker, answer: Any, infos: dict[str, Any], reset: _Reset | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Return the answer to a reset, from a successor if there is none; report each lost worker."""
        while isinstance(answer, str):
            infos = self._add_fault(worker, answer, infos)
            answer = self._reset_successor(worker, reset)
        worker.is_fresh = False
        return answer, infos

    # ---- the environments themselves -------------------------------------------------------------------

    @property
    def np_random_seed(self) -> Any:
        """The seed of each environment."""
        return self.get_attr("np_random_seed")

    # The base class has a setter, but Gymnasium's own vector environments have none either.
    @property  # type: ignore[misc]
    def np_random(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A copy of the random number generator of each environment."""
        return self.get_attr("np_random")

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each environment, or get an attribute that is not callable."""
        return self._run_on("call", None, call, name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each environment; unlike Gymnasium's, never call it."""
        return self._run_on("get_attr", None, methodcaller("get_wrapper_attr", name))

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame of each environment.

        A successor that has had no reset yet gets one first, and the same again in the next step.
        """
        return self._run_on("render", None, render)

    def run_on(
        self, indices: Iterable[int] | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Call `function(env, *args, **kwargs)` in the workers of some environments, None for all.

        Returns the results in the order of the indices. What a function changes, a successor does not have.
        """
        return self._run_on("run_on", indices, function, *args, **kwargs)

    def _run_on(
        self, what: str, indices: Iterable[int] | None, function: Any, /, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        if function is render:  # asked here, or by the driver of the actor that this is in
            fresh = [worker for worker in self._workers if worker.is_fresh and not self._needs_reset]
            self._call_workers(what, {worker: self._packed_reset(worker) for worker in fresh})
        parts = self._parts(indices)
        calls = {
            worker: worker.pack("run_on", list(part.values()), function, *args, **kwargs)
            for worker, part in parts.items()
        }
        results: dict[int, Any] = {}
        for worker, answer in self._call_workers(what, calls):
            results.update(zip(parts[worker], answer[0]))
        return tuple(results[place] for place in sorted(results))

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment: one value for all, or a list with one for each."""
        self.set_attr_of(None, name, values)

    def set_attr_of(self, indices: Iterable[int] | None, name: str, values: Any) -> None:
        """Set an attribute of some environments, None for all: one value, or a list with one for each."""
        parts = self._parts(indices)
        count = sum(map(len, parts.values()))
        if not isinstance(values, (list, tuple)):
            values = [values] * count
        if len(values) != count:
            raise OptionError(f"{len(values)} values for {count} environments", "pass one for each")
        calls, attributes = {}, {}
        for worker, part in parts.items():
            indices = list(part.values())
            calls[worker] = call = worker.pack("set_attr", name, indices, [values[place] for place in part])
            attributes[worker] = worker.attributes_with(name, indices, call)
        self._call_workers("set_attr", calls, attributes)

    def _parts(self, indices: Iterable[int] | None) -> dict[Worker, dict[int, int]]:
        """Return which of some environments each worker has: by place in `indices`, which of its own it is.

        A negative index counts from the end, as in a list.
        """
        rows, parts = range(self.num_envs), defaultdict[Worker, dict[int, int]](dict)
        for place, row in enumerate(rows if indices is None else [rows[index] for index in indices]):
            worker = next(worker for worker in self._workers if row < worker.rows.stop)
            parts[worker][place] = row - worker.rows.start
        return parts

    def _call_workers(
        self, name: str, calls: Mapping[Worker, bytes], attributes: Mapping[Worker, Any] | None = None
    ) -> list[tuple[Worker, Any]]:
        """Ask some workers for method calls, and return their answers; remember attributes that are set."""
        with self._using_workers():
            needs_reset, self._needs_reset = self._needs_reset, True  # if this is interrupted
            before = {worker: worker.attributes for worker in calls}
            for worker, call in calls.items():
                if attributes is not None:
                    worker.attributes = attributes[worker]
                worker.ask(self._half ^ 1, name, call)  # the other half: nothing is shown of it
            answers = self._collect(list(calls))
            for worker, answer in answers:
                if isinstance(answer, Failure):
                    worker.attributes = before[worker]
            self._needs_reset = needs_reset
        for worker, answer in answers:
            if isinstance(answer, str):  # the next step reports it, too
                what = f"{name} of {worker}: {answer}"
                raise WorkerError(what, "call reset() or step(), which replace the worker")
        for _, answer in answers:
            if isinstance(answer, Failure):
                raise answer.error
        return answers

    def __getstate__(self) -> NoReturn:
        what = f"a {type(self).__name__} cannot be copied or pickled: its environments are in other processes"
        raise UnsupportedError(what, "make another one from the same env_fns")

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End all workers; kill those that do not end in time.

        In the middle of another call, in a signal handler or another thread, all are killed immediately.

        Args:
            timeout: how many seconds they have to close their environments; None for `step_timeout`.
            terminate: kill them immediately.
        """
        deadline = time.monotonic() + (self._timeout if timeout is None else min(timeout, LONGEST_WAIT))
        with ExitStack() as stack:  # all of them, even if one raises
            for worker in reversed(self._workers):
                worker.is_closed = True
                stack.callback(worker.stop, "the environments are closed")
            if not (terminate or self._in_use):
                asked = State.IDLE, State.BUSY if self._pending else State.IDLE
                for worker in [worker for worker in self._workers if worker.state in asked]:
                    worker.state = State.BUSY
                    worker.send(0, "close", worker.pack("close"))
                    stack.callback(worker.end, deadline)


def _checked(worker: Worker, found: Any) -> Any:
    """Return what a worker that starts has said; raise what it has raised, or why there is nothing."""
    if isinstance(found, Failure):
        raise found.error
    if isinstance(found, str):
        raise WorkerError(found, worker.start_hint)
    return found


def kill_all(workers: Iterable[Worker]) -> None:
    """End workers immediately, and for good."""
    for worker in list(workers):
        worker.is_closed = True
        worker.kill()


def _rows_of(space: spaces.Space[Any], actions: Any, rows: slice) -> Any:
    """Return the actions of some environments, in the dtypes that they have."""
    if isinstance(space, spaces.Dict):
        return {key: _rows_of(one, actions[key], rows) for key, one in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_rows_of(one, part, rows) for one, part in zip(space, actions))
    return (actions if isinstance(actions, (list, tuple)) else np.asarray(actions))[rows]
