"""What all vector environments with workers share: steps, resets, and what happens when a worker fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from typing import Any, NoReturn

import numpy as np
from gymnasium import error as gymnasium_errors
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from arrayferry._core.messages import count_of
from arrayferry.errors import OptionError, UnsupportedError, WorkerError
from arrayferry.scale._arguments import LONGEST_WAIT, check_spaces, seconds
from arrayferry.scale._block import Block, copy_into, map_arrays
from arrayferry.scale._driver import Description, Worker
from arrayferry.scale._pickling import Failure
from arrayferry.scale._worker import call, get_attr, render
from arrayferry.wrappers._autoreset import known_autoreset_mode
from arrayferry.wrappers._resets import mask_of, seeds_of

__all__ = ["WorkerVectorEnv"]


class _ClosedError(UnsupportedError, gymnasium_errors.ClosedEnvironmentError):
    """What Gymnasium's users expect from closed environments."""


class _PendingError(UnsupportedError, gymnasium_errors.AlreadyPendingCallError):
    """What Gymnasium's users expect during a step."""


class _NoStepError(UnsupportedError, gymnasium_errors.NoAsyncCallError):
    """What Gymnasium's users expect from a `step_wait` without a `step_async`."""


class WorkerVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector environment whose workers may die; their results are in a `Block`, wherever that is."""

    _block: Block
    _workers: Sequence[
        Worker
    ] = ()  # set here, like the next: `close` is called even if the options were refused
    _timeout = 0.0
    _layer = 0  # so that workers within workers get other seeds

    def __init__(
        self,
        num_envs: int,
        workers: Any,
        autoreset_mode: str | AutoresetMode,
        timeout: Any,
        max_faults: int,
    ) -> None:
        self.num_envs = num_envs
        if not num_envs:
            raise OptionError("env_fns is empty", "pass a function for each environment")
        if workers is not None:
            count_of("workers", workers, ", or None")
        self.autoreset_mode = known_autoreset_mode(autoreset_mode)
        self._timeout, self._max_faults = seconds("step_timeout", timeout), count_of("max_faults", max_faults)
        self._half, self._needs_reset, self._pending = 0, True, False
        self._seeds: list[int | None] = [None] * num_envs
        self._is_lost = np.zeros(num_envs, bool)  # by a fault, and only the caller resets it
        self._slow_obs: list[Any] = [None] * num_envs  # for spaces without a fixed shape

    def _describe(self, found: Description) -> None:
        self.metadata = {**found.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = found.render_mode
        self.single_observation_space, self.single_action_space = found.observation_space, found.action_space
        self.observation_space = batch_space(found.observation_space, self.num_envs)
        self.action_space = batch_space(found.action_space, self.num_envs)

    def _start(self) -> None:
        try:
            for worker in self._workers:  # all start in parallel
                worker.start()
            for worker in self._workers:
                check_spaces(worker.rows.start, self._wait_until_ready(worker), self._single_spaces)
            for worker in self._workers:
                worker.attach(self._block)
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self, worker: Worker) -> Any:
        found = worker.wait_until_ready()
        if isinstance(found, Failure):
            raise found.error
        if isinstance(found, str):
            raise WorkerError(found, worker.start_hint)
        return found

    @property
    def _single_spaces(self) -> tuple[Any, Any]:
        return self.single_observation_space, self.single_action_space

    # ---- steps and resets ------------------------------------------------------------------------------

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Start a step, and return while the workers take it."""
        self._check_idle()
        if self._needs_reset:
            raise UnsupportedError("step before reset, or after an environment's exception", "call reset()")
        if self._is_lost.any():
            raise UnsupportedError("a step of an environment whose episode is over", "reset it first")
        calls: list[bytes | None] = [None] * len(self._workers)
        if not copy_into(self._block.actions, actions):
            count = sum(1 for _ in iterate(self.action_space, actions))
            if count != self.num_envs:
                raise OptionError(f"{count} actions for {self.num_envs} environments", "pass one for each")
            space = self.single_action_space
            calls = [worker.pack("step", _rows_of(space, actions, worker.rows)) for worker in self._workers]
        self._half ^= 1
        self._pending = True
        with self._no_late_answers():
            for worker, call in zip(self._workers, calls):
                if worker.is_fresh:
                    self._ask_reset(worker)
                else:
                    self._ask(worker, "step", call)

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Wait for the step that was started."""
        if self.closed:
            raise _ClosedError("the environments are closed", "make new ones")
        if not self._pending:
            raise _NoStepError("step_wait without a step", "call step_async(actions) first")
        infos: dict[str, Any] = {}
        with self._no_late_answers():
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
        self._pending = False
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
        mask, seeds = mask_of(options, self.num_envs), seeds_of(seed, self.num_envs)
        if mask is not None and self._needs_reset and not mask.all():
            what = "a masked reset before the first full one, or after an environment's exception"
            raise UnsupportedError(what, "call reset() without a mask")
        asked = [worker for worker in self._workers if mask is None or mask[worker.rows].any()]
        calls = [self._packed_reset(worker, seeds[worker.rows], mask, options) for worker in asked]
        infos: dict[str, Any] = {}
        with self._no_late_answers():
            for worker in asked:
                if mask is not None and worker.is_fresh:  # rows outside the mask need an observation
                    answer, infos = self._outlive(worker, self._reset_successor(worker), infos)
                    self._take(worker, answer, {})
            for index, one in enumerate(seeds):
                if one is not None and (mask is None or mask[index]):  # without one, the last remains
                    self._seeds[index] = one
            for worker, call in zip(asked, calls):
                self._ask(worker, "reset", call)
                worker.is_fresh = False
            for worker, answer in self._answers(asked):
                infos = self._settle(worker, answer, infos)
        self._needs_reset = False
        self._is_lost[slice(None) if mask is None else mask] = False
        if mask is not None and self.autoreset_mode is AutoresetMode.DISABLED and "fault" in infos:
            self._is_lost |= infos["fault"] & ~mask
        return self._observations(), infos

    def _packed_reset(
        self, worker: Worker, seeds: Sequence[int | None], mask: Any, options: dict[str, Any] | None
    ) -> bytes:
        """Return the call that resets a worker's environments, or those of a mask."""
        if mask is not None:
            options = {**(options or {}), "reset_mask": mask[worker.rows]}
        elif worker.is_fresh:
            own = self._new_seeds(worker)
            seeds = [mine if given is None else given for given, mine in zip(seeds, own)]
        return worker.pack("reset", seeds, options)

    def _ask(self, worker: Worker, name: str, call: bytes | None) -> None:
        worker.is_busy = True
        worker.ask(self._half, name, call)

    def _answers(self, workers: Sequence[Worker]) -> list[tuple[Worker, Any]]:
        """Wait for all workers; return each answer, or why there is none. Raise what a worker has raised."""
        found = self._collect(workers)
        for _, answer in found:
            if isinstance(answer, Failure):
                raise answer.error
        return found

    def _collect(self, workers: Sequence[Worker]) -> list[tuple[Worker, Any]]:
        deadline = time.monotonic() + self._timeout
        answers = {}
        for worker in self._by_arrival(workers, deadline):
            answers[worker] = worker.answer(deadline)
            worker.is_busy = False
        found = [(worker, answers[worker]) for worker in workers]
        for worker, answer in found:
            if isinstance(answer, str):
                worker.kill()  # it might still write to its rows, or answer a later request
        return found

    def _by_arrival(self, workers: Sequence[Worker], deadline: float) -> Iterable[Worker]:
        """Return the workers, preferably those first that have answered."""
        return workers

    @contextmanager
    def _no_late_answers(self) -> Iterator[None]:
        """Kill busy workers on Ctrl-C and the like: a late answer would be taken for the next step's."""
        try:
            yield
        except BaseException:
            self._needs_reset, self._pending = True, False
            for worker in self._workers:
                if worker.is_busy:
                    worker.kill()
            raise

    def _take(self, worker: Worker, answer: Any, infos: dict[str, Any]) -> dict[str, Any]:
        if answer is None:
            return infos
        obs, found = answer
        if obs is not None:
            self._slow_obs[worker.rows] = list(iterate(self._batch_of(worker.rows), obs))
        return self._add_infos(infos, found, worker.rows)

    def _add_infos(self, infos: dict[str, Any], found: Any, rows: slice) -> dict[str, Any]:
        """Add the stacked infos of a worker."""
        return _merged(infos, found, rows, self.num_envs)

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
            self._is_lost[rows] = self.autoreset_mode is AutoresetMode.DISABLED
            return infos
        slow = last is None
        singles = deepcopy(self._slow_obs[rows]) if slow else list(iterate(self._batch_of(rows), last))
        for index, one in zip(range(rows.start, rows.stop), singles):
            infos = self._add_info(infos, {"final_obs": one, "final_info": {}}, index)
        return self._settle(worker, self._reset_successor(worker), infos)

    def _batch_of(self, rows: slice) -> Any:
        return batch_space(self.single_observation_space, rows.stop - rows.start)

    def _add_fault(self, worker: Worker, reason: str, infos: dict[str, Any]) -> dict[str, Any]:
        """Replace a worker, and report the fault; raise if there were too many."""
        self._replace(worker, reason)
        for index in range(worker.rows.start, worker.rows.stop):
            infos = self._add_info(infos, {"fault": True, "fault_reason": reason}, index)
        return infos

    def _replace(self, worker: Worker, reason: str) -> None:
        """Start the successor of a worker that was killed."""
        worker.faults, worker.faults_in_a_row = worker.faults + 1, worker.faults_in_a_row + 1
        worker.is_busy = True
        worker.start()
        worker.is_busy = False
        if worker.faults_in_a_row >= self._max_faults:
            worker.faults_in_a_row = 0
            often = f" {self._max_faults} times in a row, the last time" if self._max_faults > 1 else ""
            what = f"the worker of {worker} failed{often}: {reason}"
            raise WorkerError(what, "step these environments alone to see why, or raise max_faults")

    def _ask_reset(self, worker: Worker) -> None:
        self._ask(worker, "reset", worker.pack("reset", self._new_seeds(worker), None))

    def _new_seeds(self, worker: Worker) -> list[int | None]:
        """Return the seeds for a successor."""
        return [
            None
            if seed is None
            else int(np.random.SeedSequence([seed, index, worker.faults, self._layer]).generate_state(1)[0])
            for index, seed in enumerate(self._seeds[worker.rows], worker.rows.start)
        ]

    def _reset_successor(self, worker: Worker) -> Any:
        self._ask_reset(worker)
        worker.is_fresh = False
        [(_, answer)] = self._answers([worker])
        return answer

    def _settle(self, worker: Worker, answer: Any, infos: dict[str, Any]) -> dict[str, Any]:
        """Take the answer to a reset, from a successor if there is none."""
        return self._take(worker, *self._outlive(worker, answer, infos))

    def _outlive(self, worker: Worker, answer: Any, infos: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the answer to a reset, from a successor if there is none; report each lost worker."""
        while isinstance(answer, str):
            infos = self._add_fault(worker, answer, infos)
            answer = self._reset_successor(worker)
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
        return self._run_on("get_attr", None, get_attr, name)

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame of each environment."""
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
        rows = self._rows_at(indices)
        calls = {
            worker: worker.pack(
                "run_on", [row - worker.rows.start for row in part], function, *args, **kwargs
            )
            for worker, part in self._by_worker(rows).items()
        }
        results: dict[int, Any] = {}
        for worker, answer in self._call_workers(what, calls):
            results.update(zip(self._by_worker(rows)[worker], answer[0]))
        return tuple(results[row] for row in rows)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment: one value for all, or a list with one for each."""
        self.set_attr_of(None, name, values)

    def set_attr_of(self, indices: Iterable[int] | None, name: str, values: Any) -> None:
        """Set an attribute of some environments, None for all: one value, or a list with one for each."""
        rows = self._rows_at(indices)
        if not isinstance(values, (list, tuple)):
            values = [values] * len(rows)
        if len(values) != len(rows):
            raise OptionError(f"{len(values)} values for {len(rows)} environments", "pass one for each")
        value_of = dict(zip(rows, values))
        calls = {
            worker: worker.pack("set_attr", name, {row - worker.rows.start: value_of[row] for row in part})
            for worker, part in self._by_worker(rows).items()
        }
        self._call_workers("set_attr", calls)

    def _rows_at(self, indices: Iterable[int] | None) -> list[int]:
        """Return the rows of environments; a negative index counts from the end, as in a list."""
        return list(range(self.num_envs)) if indices is None else [range(self.num_envs)[i] for i in indices]

    def _by_worker(self, rows: Sequence[int]) -> dict[Worker, list[int]]:
        """Return the rows of each worker that has some of them."""
        parts = {worker: [row for row in rows if row in _range(worker.rows)] for worker in self._workers}
        return {worker: part for worker, part in parts.items() if part}

    def _call_workers(self, name: str, calls: Mapping[Worker, bytes]) -> list[tuple[Worker, Any]]:
        """Ask some workers for method calls, and return their answers."""
        self._check_idle()
        with self._no_late_answers():
            for worker, call in calls.items():
                self._ask(worker, name, call)
            answers = self._collect(list(calls))
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

    def _check_idle(self) -> None:
        if self.closed:
            raise _ClosedError("the environments are closed", "make new ones")
        if self._pending:
            raise _PendingError("a step is not finished", "call step_wait() first")

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End all workers; kill those that do not end in time.

        Args:
            timeout: how many seconds they have to close their environments; None for `step_timeout`.
            terminate: kill them immediately.
        """
        deadline = time.monotonic()
        if not terminate:
            deadline += self._timeout if timeout is None else min(timeout, LONGEST_WAIT)
            for worker in self._workers:
                worker.request_close()
        with ExitStack() as stack:  # all of them, even if one raises
            for worker in reversed(self._workers):
                stack.callback(worker.end, deadline)


def _range(rows: slice) -> range:
    return range(rows.start, rows.stop)


def _rows_of(space: spaces.Space[Any], actions: Any, rows: slice) -> Any:
    """Return the actions of some environments, in the dtypes that they have."""
    if isinstance(space, spaces.Dict):
        return {key: _rows_of(one, actions[key], rows) for key, one in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_rows_of(one, part, rows) for one, part in zip(space, actions))
    return (actions if isinstance(actions, (list, tuple)) else np.asarray(actions))[rows]


def _merged(infos: dict[str, Any], part: dict[str, Any], rows: slice, count: int) -> dict[str, Any]:
    """Put the infos of some environments into those of all."""
    for key, value in part.items():
        if isinstance(value, dict):
            infos[key] = _merged(infos.get(key, {}), value, rows, count)
            continue
        if key not in infos:
            infos[key] = np.zeros((count, *value.shape[1:]), value.dtype)
            if value.dtype == object and value.ndim == 1:  # as Gymnasium does
                infos[key][:] = None
        infos[key][rows] = value
    return infos
