"""`RayVectorEnv`: environments in Ray actors, on one host or many."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from gymnasium.vector import AutoresetMode

from arrayferry.errors import NotInstalledError, OptionError, WorkerError
from arrayferry.scale._actor import Actor
from arrayferry.scale._block import Block, map_arrays
from arrayferry.scale._driver import LATE, Kind, Request, Worker, warn_of_failure
from arrayferry.scale._vector import WorkerVectorEnv

if TYPE_CHECKING:
    import gymnasium as gym

    from arrayferry.scale._worker import Task

__all__ = ["RayVectorEnv"]

# With retries, Ray would silently run a step again on environments that were never reset.
_OURS = {"max_restarts": 0, "max_task_retries": 0}
_REFUSED = [*_OURS, "lifetime", "max_concurrency", "name"]


class RayVectorEnv(WorkerVectorEnv):
    """A vector environment whose workers are Ray actors, each of which steps several environments.

    For environments of which a step of all takes 10 ms or more, on hosts without a GPU, with one learner. It
    returns what `SyncVectorEnv` returns, for any number of workers, and handles a worker that dies as a
    `ProcessVectorEnv` does; a host that dies takes its workers with it, and their successors start on other
    hosts. An actor with several cores (`actor_options={"num_cpus": 4}`) steps its environments in a
    `ProcessVectorEnv` of its own.

    If Ray is not initialised, `ray.init(address=address)` is called; call it yourself first, to give it other
    options. `close()` ends the actors, and leaves Ray as it is.

    Args:
        env_fns: functions that make the environments; they are called only on the workers' hosts.
        workers: how many actors, at most one per environment; None for one per host.
        batch_size: how many environments `recv` returns, the first that are ready; None for all of them.
        autoreset_mode: what happens when an episode ends.
        step_timeout: the number of seconds after which a worker that does not answer is replaced.
        restart_timeout: how many seconds a worker has to find a host and make its environments.
        max_faults: how many faults of one worker, without a good step between them, raise a `WorkerError`.
        address: the cluster; `"local"` starts one on this machine, and never attaches to another.
        actor_options: Ray's options for each actor, such as `num_cpus`, `resources`,
            `scheduling_strategy` (without it, the actors are spread over the hosts) and `runtime_env`.

    Example:
        >>> import gymnasium as gym
        >>> from arrayferry.scale import RayVectorEnv
        >>> envs = RayVectorEnv([lambda: gym.make("CartPole-v1")] * 4, workers=2)
        >>> obs, info = envs.reset(seed=0)
        >>> obs.shape
        (4, 4)
        >>> envs.close()
    """

    _layer = 1

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
        address: str = "local",
        actor_options: Mapping[str, Any] | None = None,
    ) -> None:
        timeouts = step_timeout, restart_timeout
        super().__init__(env_fns, workers, batch_size, autoreset_mode, *timeouts, max_faults)
        options = {"scheduling_strategy": "SPREAD", **(actor_options or {})}
        if refused := [name for name in _REFUSED if name in options]:
            raise OptionError(f"actor_options[{refused[0]!r}] cannot be set", "leave it out")
        self._session = session = _Session(address)
        ray = session.ray
        actor = ray.remote(**options, **_OURS)(Actor)
        cores = max(int(options.get("num_cpus") or 1), 1)
        if batch_size is not None and cores > 1:
            what = f"batch_size with num_cpus={cores}: an actor would step its environments together"
            raise OptionError(what, f"pass {cores} times as many workers, with num_cpus=1")
        settings = cores, self._timeout, max_faults
        workers = workers or sum(node["Alive"] and "CPU" in node["Resources"] for node in ray.nodes()) or 1
        self._start([_Worker(session, actor, task, settings) for task in self._tasks(env_fns, workers)])

    def _make_block(self) -> Block:
        # Without observations: each is copied once, from what was received into what the caller gets.
        block = Block.made_by(np.zeros, None, self.single_action_space, self.num_envs)
        for worker in self._workers:
            worker.block = block
        return block

    def _parts(self, rows: Iterable[int]) -> Iterable[tuple[Worker, Sequence[int]]]:
        if self._is_async:  # an actor answers each request as a whole
            return [(self._worker_of[row], [row]) for row in rows]
        return super()._parts(rows)

    def _oldest(self) -> dict[Any, tuple[_Worker, Request]]:
        """Return the oldest request of each worker, by the reference to its answer."""
        workers = cast("Sequence[_Worker]", self._workers)
        oldest = [(worker, *next(iter(worker.refs.items()))) for worker in workers if worker.refs]
        return {ref: (worker, request) for worker, request, ref in oldest}

    def _answers(self) -> tuple[list[int], dict[int, Any]]:
        self._session.check()
        rows: list[int] = []
        rests: dict[int, Any] = {}
        if refs := self._oldest():
            ready, _ = self._session.ray.wait(list(refs), num_returns=len(refs), timeout=0)
            for worker, request in map(refs.__getitem__, ready):
                rows += request.rows
                rests.update(worker.read(request))
        return rows, {row: rest for row, rest in rests.items() if rest is not None}

    def _rest(self, missing: int, seconds: float) -> None:
        """Wait for half of the rest at a time: each wait costs CPU time."""
        if not self._session.is_open:  # to look at the answers says so; to wait changes nothing
            return
        if refs := list(self._oldest()):
            count = min(missing, len(refs))
            self._session.ray.wait(refs, num_returns=-(-count // 2), timeout=seconds)
        else:  # all of them start
            time.sleep(seconds)


class _Worker(Worker):
    """The driver's side of an actor."""

    @property
    def start_hint(self) -> str:
        """What to do about a worker that does not start."""
        return "it needs a host that has what actor_options ask for, and everything that env_fns import"

    def __init__(self, session: _Session, actor: Any, task: Task, settings: tuple[Any, ...]) -> None:
        super().__init__(task)
        self._session, self._class, self._settings = session, actor, settings
        self._actor: Any = None
        self._made: Any = None  # a reference to the answer to one request, like these
        self.refs: dict[Request, Any] = {}

    def launch(self) -> None:
        """Start an actor; one that was killed is never reused."""
        self._session.check()
        self.refs = {}
        self._actor = self._class.remote(self.task, *self._settings)
        self._made = self._actor.make.remote()

    def has_started(self) -> bool:
        """Return whether `wait_until_ready` returns at once."""
        return bool(self._session.ray.wait([self._made], timeout=0)[0])

    def wait_until_ready(self, seconds: float) -> Any:
        """Wait for the environments; return their description, a `Failure`, or why there are none."""
        answer = self._result(self._made, seconds)
        if isinstance(answer, str):
            return f"a worker did not start: {answer}"
        return answer

    def send(self, request: Request) -> None:
        """Send a request; a step without a call has its actions in the block."""
        if self._session.is_open:
            rows, call = request.rows, request.call
            actions = map_arrays(itemgetter(rows), self.block.actions) if call is None else None
            self.refs[request] = self._actor.run.remote(rows, call, actions)

    def read(self, request: Request) -> dict[int, Any]:
        """Return the rest of an answer, or why it is lost, by row; put the numbers into the block."""
        rows, block = request.rows, self.block
        answer = self._result(self.refs.pop(request), 0, request.kind is Kind.CALL)
        if isinstance(answer, str):
            return dict.fromkeys(rows, answer)
        rests: dict[int, Any]
        rests, idle, numbers = answer
        block.idle[self.rows.start] += idle
        if request.kind is Kind.STEP:
            block.rewards[rows], block.terminated[rows], block.truncated[rows] = numbers
        return rests

    def trouble(self, now: float) -> str | None:
        """Return why it will not answer; that an actor died is an answer of Ray's."""
        self._session.check()
        return LATE if now > self.since + self.timeout else None

    def _result(self, ref: Any, timeout: float, is_writable: bool = False) -> Any:
        """Return an answer, whose large arrays are read-only unless they are copied; or why there is none."""
        self._session.check()
        ray = self._session.ray
        try:
            data, *large = ray.get(ref, timeout=max(timeout, 0))
            return pickle.loads(data, buffers=map(bytearray, large) if is_writable else large)
        except ray.exceptions.GetTimeoutError:
            return LATE
        except ray.exceptions.RayError as error:
            return f"the worker died ({type(error).__name__}: {str(error).splitlines()[-1].split('. ')[0]})"

    def end(self, deadline: float) -> None:
        """Wait until the environments are closed."""
        if self._session.is_open:
            answer = self._result([*self.refs.values()][-1], deadline - time.monotonic())
            if not isinstance(answer, str):
                warn_of_failure(answer[0][self.rows[0]])

    def kill(self) -> None:
        """End the actor immediately."""
        if self._actor is not None and self._session.is_open:
            self._session.ray.kill(self._actor)


class _Session:
    """Ray as it was initialised, by the caller or here.

    After a `ray.shutdown()` the actors are gone, whether or not Ray was initialised again; Ray would start
    once more if one were called.
    """

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ImportError as error:
            raise NotInstalledError("RayVectorEnv needs Ray", "pip install ray") from error
        if not ray.is_initialized():
            ray.init(address=address)
        elif address not in ("local", "auto", current := ray.get_runtime_context().gcs_address):
            what = f"address={address!r}, but Ray was initialised with {current}"
            raise OptionError(what, "leave the address out, or call ray.shutdown() first")
        self.ray: Any = ray
        self._identity = self._current()

    def _current(self) -> tuple[str, str]:
        context = self.ray.get_runtime_context()
        return context.get_node_id(), context.get_job_id()

    @property
    def is_open(self) -> bool:
        """Whether the actors can still be there."""
        return self.ray.is_initialized() and self._current() == self._identity

    def check(self) -> None:
        """Raise if they cannot."""
        if not self.is_open:
            what = "Ray was shut down, and the actors ended with it"
            raise WorkerError(what, "make new environments after ray.init()")
