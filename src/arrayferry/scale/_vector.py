"""What all vector environments with workers have: steps and resets of all, or of the first that are ready."""

from __future__ import annotations

import itertools
import time
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from gymnasium import error as gymnasium_errors
from gymnasium.vector.utils import batch_space, iterate

from arrayferry._boundary.autoreset import known_autoreset_mode, mask_of
from arrayferry._boundary.seeds import seeds_of
from arrayferry._core.convert import Converter
from arrayferry._core.messages import count_of
from arrayferry.errors import OptionError, UnsupportedError, WorkerError
from arrayferry.scale._arguments import LONGEST_WAIT, check_spaces, seconds, validate_env_fns
from arrayferry.scale._block import Block, copy_into
from arrayferry.scale._calls import Calls, InCall
from arrayferry.scale._driver import Worker
from arrayferry.scale._pickling import Failure, pickled
from arrayferry.scale._returns import check_ids
from arrayferry.scale._worker import Description, Task
from arrayferry.spaces.members import Caster, member_caster

if TYPE_CHECKING:
    from gymnasium.vector import AutoresetMode

__all__ = ["WaitTimes", "WorkerVectorEnv", "kill_all"]


_IDS = 'pass info["env_id"]'


class _PendingError(UnsupportedError, gymnasium_errors.AlreadyPendingCallError):
    """What Gymnasium's users expect during a step."""


class _NoStepError(UnsupportedError, gymnasium_errors.NoAsyncCallError):
    """What Gymnasium's users expect from a `step_wait` without a `step_async`."""


class _NoneReadyError(WorkerError, TimeoutError):
    """No environment has answered in time; all of them go on."""


class WaitTimes(NamedTuple):
    """Who has waited for whom, in seconds.

    Attributes:
        learner: how long the caller waited for environments.
        workers: how long a worker had nothing to do, on average.
        total: how much time has passed.
    """

    learner: float
    workers: float
    total: float


class WorkerVectorEnv(Calls):
    """A vector environment whose workers may die; their results are in a `Block`, wherever that is."""

    _timeout = 0.0

    def __init__(
        self,
        env_fns: Any,
        workers: Any,
        batch_size: Any,
        autoreset_mode: str | AutoresetMode,
        timeout: Any,
        restart_timeout: Any,
        max_faults: int,
    ) -> None:
        self.num_envs = validate_env_fns(env_fns)
        if workers is not None:
            count_of("workers", workers, ", or None")
        self._is_async = batch_size is not None
        self._batch_size = (
            count_of("batch_size", batch_size, ", or None") if self._is_async else self.num_envs
        )
        if self._batch_size > self.num_envs:
            what = f"batch_size={batch_size!r} with {self.num_envs} environments"
            raise OptionError(what, "pass as many or fewer")
        self.autoreset_mode = known_autoreset_mode(autoreset_mode)
        self._timeout, self._in_call = seconds("step_timeout", timeout), InCall()
        self._restart_timeout = seconds("restart_timeout", restart_timeout)
        self._casters: dict[int, Caster] = {}
        self._init_rows(count_of("max_faults", max_faults))
        self._measured = 0.0, 0.0, time.monotonic()

    def _tasks(self, env_fns: Sequence[Any], workers: int) -> list[Task]:
        """Return what each of some workers is to do."""
        bounds = np.linspace(0, self.num_envs, min(workers, self.num_envs) + 1).round().astype(int).tolist()
        shared = self.num_envs, self.autoreset_mode
        return [
            Task(pickled(env_fns[start:stop]), range(start, stop), *shared)
            for start, stop in itertools.pairwise(bounds)
        ]

    def _start(self, workers: Sequence[Worker]) -> None:
        """Start the workers, and learn from them what their environments are like."""
        self._workers = workers
        self._worker_of = [worker for worker in workers for _ in worker.rows]
        weakref.finalize(self, kill_all, workers).atexit = False
        try:
            for worker in workers:  # all start in parallel
                worker.timeout, worker.restart_timeout = self._timeout, self._restart_timeout
                worker.start()
            for worker in workers:
                description = _checked(worker, worker.wait_until_ready(self._restart_timeout))
                if worker is workers[0]:
                    self._describe(description)
                worker.spaces = self._single_spaces
                check_spaces(worker.rows.start, description, worker.spaces)
            self._block = self._make_block()
            self._block.asked[:] = -1
            for worker in workers:
                worker.is_ready = True
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
        """Return the block, now that the spaces are known, and share it with the workers."""

    @property
    def _single_spaces(self) -> tuple[Any, Any]:
        return self.single_observation_space, self.single_action_space

    def _using_workers(self) -> InCall:
        """Check that nothing is under way, and replace the workers that an interrupt left in doubt."""
        self._check_open()
        if self._under_way and not self._needs_reset:
            wait = "recv() until none is" if self._is_async else "step_wait()"
            raise _PendingError("a step is not finished", f"call {wait} first")
        if self._needs_reset:
            with self._in_call:
                self._abandon()
        return self._in_call

    # ---- all of them -----------------------------------------------------------------------------------

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        self._start_step(actions)
        return self._finish_step()

    def step_async(self, actions: Any) -> None:
        """Start a step, and return while the workers take it."""
        self._start_step(actions)
        self._needs_reset = False

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Wait for the step that was started."""
        self._check_open()
        if not self._under_way or self._needs_reset:
            raise _NoStepError("step_wait without a step", "call step_async(actions) first")
        if len(self._under_way) < self.num_envs:  # the others would show an earlier step
            what = f"step_wait with {len(self._under_way)} of {self.num_envs} environments under way"
            raise _NoStepError(what, "call recv(), which returns those")
        return self._finish_step()

    def _start_step(self, actions: Any) -> None:
        with self._using_workers():
            self._check_reset()
            if self._over:
                raise UnsupportedError("a step of an environment whose episode is over", "reset it first")
            is_in_block = copy_into(self._block.actions, actions)
            self._ask_step(self._all, None if is_in_block else self._by_row(self._all, actions))

    def _finish_step(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        with self._in_call:
            self._wait()
            self._needs_reset = True
            self._ready.clear()
            obs, reward, terminated, truncated, infos = self._returned(self._all, self.num_envs)
            self._needs_reset = False
        return obs, reward, terminated, truncated, infos

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of `options["reset_mask"]`."""
        with self._using_workers():
            rows = self._start_reset(seed, options)
            self._wait()
            self._ready.clear()
            obs, infos = (
                self._observations(self._all),
                self._stacked_infos(zip(rows, rows), self.num_envs),
            )
            self._under_way.clear()
            self._needs_reset = False
        return obs, infos

    def _start_reset(self, seed: Any, options: dict[str, Any] | None) -> Sequence[int]:
        """Ask for a reset; `_needs_reset` is True from then on."""
        seeds, mask = seeds_of(seed, self.num_envs), mask_of(options, self.num_envs)
        rows: Sequence[int] = self._all if mask is None else np.flatnonzero(mask).tolist()
        if self._needs_reset and len(rows) < self.num_envs:
            what = "a masked reset before the first full one, or after an exception or an interrupt"
            raise UnsupportedError(what, "call reset() without a mask")
        options = options and {key: value for key, value in options.items() if key != "reset_mask"}
        requests = self._reset_requests(rows, seeds, options)
        self._needs_reset = True
        for row in rows:
            if seeds[row] is not None:  # without one, the last remains
                self._seeds[row] = seeds[row]
        self._ask_reset(requests)
        return rows

    # ---- the first that are ready ----------------------------------------------------------------------

    def async_reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> None:
        """Start to reset all environments, or those of `options["reset_mask"]`; `recv` returns them.

        Without a mask, steps that are under way are forgotten, and their workers replaced.
        """
        self._check_open()
        mask = mask_of(options, self.num_envs)
        rows = [] if mask is None else np.flatnonzero(mask).tolist()
        if busy := sorted(self._under_way.intersection(rows)):
            raise _PendingError(f"environment {busy[0]} is under way", "recv() it first")
        with self._in_call:
            if mask is None or self._needs_reset:
                self._needs_reset = True
                self._abandon()
            self._start_reset(seed, options)
            self._needs_reset = False

    def send(self, actions: Any, env_id: Any = None) -> None:
        """Start a step of some environments, and return while their workers take it.

        Args:
            actions: one for each of them.
            env_id: which ones, as `info["env_id"]` says after `recv`; None for all.

        Raises:
            UnsupportedError: one of them is under way, or was not reset.
            OptionError: there is no such environment, or not an action for each.
        """
        self._check_open()
        self._check_reset()
        ids = np.arange(self.num_envs) if env_id is None else np.asarray(env_id)
        if ids.size and (ids.dtype.kind not in "iu" or ids.ndim != 1):
            raise OptionError(f"env_id={env_id!r:.100} is not valid", _IDS)
        rows = ids.tolist()
        actions = self._cast(actions, len(rows))
        by_row = None
        if self.num_envs in rows:  # what `pad` has added
            by_row = self._by_row(rows, actions)
            rows = [row for row in rows if row != self.num_envs]
        self._check_rows(rows)
        with self._in_call:
            if by_row is None and not copy_into(self._block.actions, actions, rows):
                by_row = self._by_row(rows, actions)
            self._ask_step(rows, by_row)
            self._needs_reset = False

    def recv(
        self, timeout: float | None = None, *, pad: bool = False
    ) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Return what the first `batch_size` environments have answered, or all that are under way if fewer.

        `info["env_id"]` says which ones they are. One that was reset has reward 0.

        Args:
            timeout: after how many seconds to return those that have answered until then; None to wait.
            pad: True to always return `batch_size` rows; those at the end, which `info["_env_id"]` marks
                False, repeat the first one, with the reward 0 and the number of no environment.

        Raises:
            TimeoutError: none has answered in time.
            UnsupportedError: none is under way.
        """
        self._check_open()
        self._check_reset()
        if not self._under_way:
            raise _NoStepError("recv without a step", "call async_reset() or send(actions, env_id) first")
        count = min(self._batch_size, len(self._under_way))
        longest = float("inf") if timeout is None else seconds("timeout", timeout, or_zero=True)
        with self._in_call:
            self._wait(count, time.monotonic() + longest)
            if not self._ready:
                what = f"no environment has answered within {timeout} s"
                raise _NoneReadyError(what, "call recv() again, with a longer timeout")
            self._needs_reset = True
            ready = self._ready
            rows = [ready.popleft() for _ in range(min(count, len(ready)))]
            size = self._batch_size if pad else len(rows)
            obs, reward, terminated, truncated, infos = self._returned(rows, size)
            check_ids(rows, infos)
            infos["env_id"] = np.array([*rows, *[self.num_envs] * (size - len(rows))])
            infos["_env_id"] = infos["env_id"] < self.num_envs
            self._needs_reset = False
        return obs, reward, terminated, truncated, infos

    def _check_reset(self) -> None:
        if self._needs_reset:
            what = "step before reset, or after an environment's exception or an interrupt"
            raise UnsupportedError(what, "call async_reset()" if self._is_async else "call reset()")

    def _check_rows(self, rows: Sequence[Any]) -> None:
        """Refuse environments that cannot take a step."""
        for row in rows:
            if not 0 <= row < self.num_envs:
                raise OptionError(f"env_id has {row}, with {self.num_envs} environments", _IDS)
            if row in self._under_way:
                raise _PendingError(f"environment {row} is under way", "recv() it first")
            if row in self._over:
                raise UnsupportedError(f"the episode of environment {row} is over", "reset it first")
        if len(set(rows)) != len(rows):
            raise OptionError("env_id names an environment twice", _IDS)

    def _by_row(self, rows: Sequence[int], actions: Any) -> dict[int, Any]:
        """Return the action of each row; refuse actions that are not as many."""
        try:
            each = list(iterate(self.action_space, actions))
        except TypeError as error:
            what = f"the actions {actions!r:.100} are no batch"
            raise UnsupportedError(what, "pass one for each") from error
        if len(each) != len(rows):
            raise OptionError(f"{len(each)} actions for {len(rows)} environments", "pass one for each")
        return dict(zip(rows, each))

    def _cast(self, actions: Any, count: int) -> Any:
        """Return actions as members of their space, as a batch of some size."""
        if count not in self._casters:
            space = batch_space(self.single_action_space, count) if count else None
            self._casters[count] = member_caster(space, Converter("numpy")) if space else lambda value: value
        return self._casters[count](actions)

    def wait_times(self) -> WaitTimes:
        """Return who has waited for whom since the last call, or the start.

        If the learner waits, more workers or a smaller `batch_size` help; if workers do, a larger one.
        """
        now = (
            self._waited,
            self._block.idle[[worker.rows.start for worker in self._workers]].mean(),
            time.monotonic(),
        )
        before, self._measured = self._measured, now
        return WaitTimes(*(float(one - other) for one, other in zip(now, before)))

    # ---- the end ---------------------------------------------------------------------------------------

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
                stack.callback(worker.kill)
            if not (terminate or self._in_call.is_on):
                for worker in self._workers:
                    is_busy = worker.is_in_doubt or (worker.requests and self._needs_reset)
                    if worker.is_ready and not is_busy:
                        worker.close()
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
