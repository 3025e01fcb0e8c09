"""What all vector environments with workers share: steps, resets, and what happens when a worker fails."""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar, NamedTuple, NoReturn

import cloudpickle
import numpy as np
from gymnasium import error as gymnasium_errors
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from arrayferry.errors import OptionError, UnsupportedError, WorkerError
from arrayferry.scale._block import Block, copy_into, map_arrays
from arrayferry.scale._worker import Failure, check_spaces, dumps_by_value

__all__ = ["Description", "Worker", "WorkerVectorEnv", "counted", "pickled", "split"]

# The longest time that the system can wait for: 10 days.
_FOREVER = 864_000.0


class _ClosedError(UnsupportedError, gymnasium_errors.ClosedEnvironmentError):
    """What Gymnasium's users expect of environments that are closed."""


class _PendingError(UnsupportedError, gymnasium_errors.AlreadyPendingCallError):
    """What Gymnasium's users expect during a step."""


class _NoStepError(UnsupportedError, gymnasium_errors.NoAsyncCallError):
    """What Gymnasium's users expect of a `step_wait` alone."""


class Description(NamedTuple):
    """What a vector environment tells about its environments."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None

    @classmethod
    def of(cls, env: Any) -> Description:
        """Describe an environment."""
        return cls(env.observation_space, env.action_space, env.metadata, env.render_mode)


class Worker(ABC):
    """The driver's side of a worker, which steps the environments of some rows.

    A worker is *fresh* when it has replaced another, and its environments have had no episode yet. It is
    *busy* while it starts, and from when it is asked something until it has answered. It has *greeted* when
    its environments are made.
    """

    start_hint: ClassVar[str]
    """What to do about a worker that does not start."""
    block: Block
    """Its rows of the block."""

    def __init__(self, rows: slice) -> None:
        self.rows, self.faults, self.faults_in_a_row = rows, 0, 0
        self.is_fresh = self.is_busy = self.has_greeted = False

    def attach(self, block: Block) -> None:
        """Take its rows of a block."""
        self.block = block.rows(self.rows)

    def __str__(self) -> str:
        return f"environments {self.rows.start} to {self.rows.stop - 1}"

    @abstractmethod
    def start(self) -> None:
        """Start it, also after it was killed; `greeting` waits for it."""

    @abstractmethod
    def greeting(self) -> Any:
        """Wait until the environments are made: their spaces, and perhaps more; or as `answer`."""

    def pack(self, name: str, /, *arguments: Any, **options: Any) -> bytes:
        """Return the call of a method as bytes: as env_fns are, so that classes of a script are the same."""
        return dumps_by_value((name, arguments, options))

    @abstractmethod
    def ask(self, half: int, name: str, call: bytes | None = None) -> None:
        """Ask for the call of a method; without one, for a step with the actions in the block."""

    def answer(self, deadline: float) -> Any:
        """Wait for what was asked: None if all is in the block; a `Failure`; or why there is no answer."""
        if not self.has_greeted:  # to start takes its own time
            waiting = time.monotonic()
            if isinstance(found := self.greeting(), (Failure, str)):
                return found
            deadline += time.monotonic() - waiting
        return self.reply(deadline)

    @abstractmethod
    def reply(self, deadline: float) -> Any:
        """Wait as `answer` does, of a worker that has started."""

    def show_last(self, half: int) -> None:
        """Show the last observations again, in one half of the block."""
        copy_into(self.block.observations[half], self.block.observations[half ^ 1])

    @abstractmethod
    def say_goodbye(self) -> None:
        """Ask it to close its environments and end."""

    @abstractmethod
    def end(self, deadline: float) -> None:
        """Wait until it has ended, and kill it if it does not."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once."""


class WorkerVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector environment whose workers may die; what they find is in a `Block`, wherever that is."""

    _block: Block
    _layer = 0  # so that workers within workers do not repeat their seeds

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
        if workers is not None and not (isinstance(workers, (int, np.integer)) and workers >= 1):
            raise OptionError(f"workers={workers!r}", "pass a whole number, at least 1, or None")
        if not (isinstance(timeout, (int, float, np.number)) and timeout > 0):
            raise OptionError(f"step_timeout={timeout!r}", "pass seconds, or math.inf to wait for ever")
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self._timeout, self._max_faults = min(timeout, _FOREVER), max_faults
        self._workers: Sequence[Worker] = ()
        self._half, self._needs_reset, self._pending = 0, True, False
        self._seeds: list[int | None] = [None] * num_envs
        self._slow_obs: list[Any] = [None] * num_envs  # of spaces without a fixed shape

    def _describe(self, found: Description) -> None:
        self.metadata = {**found.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = found.render_mode
        self.single_observation_space, self.single_action_space = found.observation_space, found.action_space
        self.observation_space = batch_space(found.observation_space, self.num_envs)
        self.action_space = batch_space(found.action_space, self.num_envs)

    def _start(self) -> None:
        try:
            for worker in self._workers:  # all start at once
                worker.start()
            for worker in self._workers:
                check_spaces(worker.rows.start, self._greet(worker), self._single_spaces)
            for worker in self._workers:
                worker.attach(self._block)
        except BaseException:
            self.close()
            raise

    def _greet(self, worker: Worker) -> Any:
        found = worker.greeting()
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
        """Start a step, and return while the workers are at it."""
        self._check_idle()
        if self._needs_reset:
            raise UnsupportedError("step before reset, or after an environment's exception", "call reset()")
        is_disabled = self.autoreset_mode is AutoresetMode.DISABLED
        if is_disabled and any(worker.is_fresh for worker in self._workers):
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
                if worker.is_fresh:  # it was reset, which is no good step yet
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
        mask = None if options is None else options.get("reset_mask")
        if mask is not None:
            _check_mask(mask, self.num_envs)
            if self._needs_reset and not mask.all():
                raise UnsupportedError("a reset of some before one of all", "call reset() without a mask")
        if isinstance(seed, (int, np.integer)):
            seeds: Any = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = [None] * self.num_envs if seed is None else seed
        if len(seeds) != self.num_envs:
            raise OptionError(f"{len(seeds)} seeds for {self.num_envs} environments", "pass one for each")
        asked = [worker for worker in self._workers if mask is None or mask[worker.rows].any()]
        calls = []
        for worker in asked:
            some, its_seeds = options, seeds[worker.rows]
            if mask is not None:
                some = {**(options or {}), "reset_mask": mask[worker.rows]}
            elif worker.is_fresh:
                its_seeds = [
                    own if given is None else given for given, own in zip(its_seeds, self._new_seeds(worker))
                ]
            calls.append(worker.pack("reset", its_seeds, some))
        infos: dict[str, Any] = {}
        with self._no_late_answers():
            for worker in asked:
                if mask is not None and worker.is_fresh:  # those that are not reset need an observation
                    self._settle(worker, self._reset_successor(worker), {})
            for index, one in enumerate(seeds):
                if one is not None and (mask is None or mask[index]):  # without one, the last one goes on
                    self._seeds[index] = one
            for worker, call in zip(asked, calls):
                self._ask(worker, "reset", call)
                worker.is_fresh = False
            for worker, answer in self._answers(asked):
                infos = self._settle(worker, answer, infos)
        self._needs_reset = False
        return self._observations(), infos

    def _ask(self, worker: Worker, name: str, call: bytes | None) -> None:
        worker.is_busy = True
        worker.ask(self._half, name, call)

    def _answers(self, workers: Sequence[Worker]) -> list[tuple[Worker, Any]]:
        """Wait for all workers; return their answers, or why there is none. Raise what one has raised."""
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
                worker.kill()  # it may still write to its rows, and answer when something else is asked
        return found

    def _by_arrival(self, workers: Sequence[Worker], deadline: float) -> Iterable[Worker]:
        """Return the workers, best those first that have answered."""
        return workers

    @contextmanager
    def _no_late_answers(self) -> Iterator[None]:
        """End busy workers on Ctrl-C and the like: a late answer would be taken for that of the next step."""
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
        """Add the infos that a worker has found, stacked."""
        return _merged(infos, found, rows, self.num_envs)

    def _observations(self) -> Any:
        now = self._block.observations[self._half]
        if now is not None:
            return map_arrays(np.copy, now)
        empty: Any = create_empty_array(self.single_observation_space, self.num_envs)
        return concatenate(self.single_observation_space, self._slow_obs, empty)

    # ---- faults ----------------------------------------------------------------------------------------

    def _show_fault(self, worker: Worker, reason: str, infos: dict[str, Any]) -> dict[str, Any]:
        rows, block = worker.rows, worker.block
        worker.show_last(self._half)
        last = map_arrays(np.copy, block.observations[self._half])
        infos = self._add_fault(worker, reason, infos)
        block.rewards[:], block.terminated[:], block.truncated[:] = 0, False, True
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            return infos
        singles = self._slow_obs[rows] if last is None else list(iterate(self._batch_of(rows), last))
        for index, one in zip(range(rows.start, rows.stop), singles):
            infos = self._add_info(infos, {"final_obs": one, "final_info": {}}, index)
        return self._settle(worker, self._reset_successor(worker), infos)

    def _batch_of(self, rows: slice) -> Any:
        return batch_space(self.single_observation_space, rows.stop - rows.start)

    def _add_fault(self, worker: Worker, reason: str, infos: dict[str, Any]) -> dict[str, Any]:
        """Replace a worker, and tell of it; raise if that was too often."""
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
            what = f"the worker of {worker} failed {self._max_faults} times in a row, the last time: {reason}"
            raise WorkerError(what, "step these environments alone to see why, or raise max_faults")

    def _ask_reset(self, worker: Worker) -> None:
        self._ask(worker, "reset", worker.pack("reset", self._new_seeds(worker), None))

    def _new_seeds(self, worker: Worker) -> list[int | None]:
        """Return the seeds of a successor."""
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
        """Take the answer to a reset, of a successor if there is none; tell of each that was lost."""
        while isinstance(answer, str):
            infos = self._add_fault(worker, answer, infos)
            answer = self._reset_successor(worker)
        return self._take(worker, answer, infos)

    # ---- the environments themselves -------------------------------------------------------------------

    @property
    def np_random_seed(self) -> Any:
        """The seed of each environment."""
        return self.get_attr("np_random_seed")

    # The base class has a setter, Gymnasium's own vectors have none either.
    @property  # type: ignore[misc]
    def np_random(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A copy of the random number generator of each environment."""
        return self.get_attr("np_random")

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each environment, or get an attribute."""
        return self._call_all(
            "call", [worker.pack("call", name, *args, **kwargs) for worker in self._workers]
        )

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment: one value for all, or a list with one for each."""
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise OptionError(f"{len(values)} values for {self.num_envs} environments", "pass one for each")
        calls = [worker.pack("set_attr", name, list(values[worker.rows])) for worker in self._workers]
        self._call_all("set_attr", calls)

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame of each environment."""
        return self._call_all("render", [worker.pack("render") for worker in self._workers])

    def _call_all(self, name: str, calls: list[bytes]) -> tuple[Any, ...]:
        self._check_idle()
        with self._no_late_answers():
            for worker, call in zip(self._workers, calls):
                self._ask(worker, name, call)
            found = self._collect(self._workers)
        for worker, answer in found:
            if isinstance(answer, str):  # the next step tells of it, too
                what = f"{name} of {worker}: {answer}"
                raise WorkerError(what, "call reset() or step(), which replace the worker")
        answers = [answer for _, answer in found]
        for answer in answers:
            if isinstance(answer, Failure):
                raise answer.error
        return tuple(one for answer in answers for one in (answer[0] or ()))

    def __getstate__(self) -> NoReturn:
        what = f"a {type(self).__name__} cannot be copied or pickled: its environments are in other processes"
        raise UnsupportedError(what, "make another one of the same env_fns")

    def _check_idle(self) -> None:
        if self.closed:
            raise _ClosedError("the environments are closed", "make new ones")
        if self._pending:
            raise _PendingError("a step is not finished", "call step_wait() first")

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End all workers; kill those that do not end in time.

        Args:
            timeout: how many seconds they have to close their environments; None for `step_timeout`.
            terminate: kill them at once.
        """
        deadline = time.monotonic()
        if not terminate:
            deadline += self._timeout if timeout is None else min(timeout, _FOREVER)
            for worker in self._workers:
                worker.say_goodbye()
        with ExitStack() as stack:  # all of them, even if one raises
            for worker in reversed(self._workers):
                stack.callback(worker.end, deadline)


def counted(env_fns: Any) -> int:
    """Return how many functions there are to make environments; refuse what is no list of them."""
    hint = "pass a list of functions that make one environment each: [lambda: gymnasium.make(...)] * 8"
    if not isinstance(env_fns, Sequence):
        raise UnsupportedError(f"env_fns is a {type(env_fns).__name__}", hint)
    for index, env_fn in enumerate(env_fns):
        if not callable(env_fn):
            raise UnsupportedError(f"env_fns[{index}] is a {type(env_fn).__name__}", hint)
    return len(env_fns)


def split(count: int, workers: int) -> list[slice]:
    """Return the rows of each worker; there is at least one for each."""
    bounds = np.linspace(0, count, min(workers, count) + 1).round().astype(int).tolist()
    return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]


def _rows_of(space: spaces.Space[Any], actions: Any, rows: slice) -> Any:
    """Return the actions of some environments, with the dtypes that they have."""
    if isinstance(space, spaces.Dict):
        return {key: _rows_of(one, actions[key], rows) for key, one in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_rows_of(one, part, rows) for one, part in zip(space, actions))
    return (actions if isinstance(actions, (list, tuple)) else np.asarray(actions))[rows]


def pickled(env_fns: Sequence[Any]) -> bytes:
    """Return functions in a form that another process reads."""
    try:
        found: bytes = cloudpickle.dumps(list(env_fns))
    except Exception as error:
        what = f"env_fns cannot be sent to a worker ({type(error).__name__}: {error})"
        raise UnsupportedError(what, "make what they need inside of them, not outside") from error
    return found


def _check_mask(mask: Any, count: int) -> None:
    hint = f"it is a NumPy array of {count} bools, of which at least one is True"
    if not isinstance(mask, np.ndarray) or mask.dtype != bool:
        raise UnsupportedError(f"reset_mask={mask!r}", hint)
    if mask.shape != (count,) or not mask.any():
        raise OptionError(f"reset_mask={mask!r}", hint)


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
