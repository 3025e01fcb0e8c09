"""`RayVectorEnv`: environments in Ray actors, on one host or many."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from gymnasium.vector import AutoresetMode

from arrayferry.errors import NotInstalledError, OptionError, WorkerError
from arrayferry.scale._actor import Actor, ActorTask, unpacked
from arrayferry.scale._block import Block, rows_of
from arrayferry.scale._driver import Worker, warn_of_failure
from arrayferry.scale._requests import Kind, Request
from arrayferry.scale._vector import WorkerVectorEnv

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["RayVectorEnv"]

# With retries, Ray would silently run a step again on environments that were never reset.
_OURS = {"max_restarts": 0, "max_task_retries": 0}
_REFUSED = [*_OURS, "lifetime", "max_concurrency", "name"]
_LATE = "the worker did not answer in time"


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
        tasks = [ActorTask(task, *settings) for task in self._tasks(env_fns, workers)]
        self._start([_Worker(session, actor, task) for task in tasks])

    def _make_block(self) -> Block:
        # Without observations: each is copied once, from what was received into what the caller gets.
        block = Block.made_by(np.zeros, None, self.single_action_space, self.num_envs)
        for worker in cast("Sequence[_Worker]", self._workers):
            worker.attach(block, self.single_action_space)
        return block

    def _refs(self) -> dict[Any, _Worker]:
        workers = cast("Sequence[_Worker]", self._workers)
        return {ref: worker for worker in workers if (ref := worker.next_ref) is not None}

    def _answered(self) -> Iterator[Worker]:
        self._session.check()
        while refs := self._refs():
            ready, _ = self._session.ray.wait(list(refs), num_returns=len(refs), timeout=0)
            if not ready:
                return
            yield from map(refs.__getitem__, ready)

    def _rest(self, missing: int, seconds: float) -> None:
        """Wait for half of the rest at a time: each wait costs CPU time."""
        self._session.check()
        if refs := list(self._refs()):
            self._session.ray.wait(refs, num_returns=min(-(-missing // 2), len(refs)), timeout=seconds)
        else:  # all of them start
            time.sleep(seconds)


class _Worker(Worker):
    """The driver's side of an actor."""

    @property
    def start_hint(self) -> str:
        """What to do about a worker that does not start."""
        return "it needs a host that has what actor_options ask for, and everything that env_fns import"

    def __init__(self, session: _Session, actor: Any, task: ActorTask) -> None:
        super().__init__(task.task.rows)
        self._session, self._class, self._task = session, actor, task
        self._actor: Any = None
        self._made: Any = None  # a reference to the answer to one request, like these
        self._refs: dict[Request, Any] = {}

    def launch(self) -> None:
        """Start an actor; one that was killed is never reused."""
        self._session.check()
        self._refs = {}
        self._actor = self._class.remote(self._task)
        self._made = self._actor.make.remote()

    def attach(self, block: Block, space: Any) -> None:
        """Let it read actions, and write numbers."""
        self.block, self._space = block, space

    def has_started(self) -> bool:
        """Return whether `wait_until_ready` returns at once."""
        return bool(self._session.ray.wait([self._made], timeout=0)[0])

    def wait_until_ready(self, seconds: float) -> Any:
        """Wait for the environments; return their description, a `Failure`, or why there are none."""
        answer = self._result(self._made, seconds)
        if isinstance(answer, str):
            return f"a worker did not start: {answer}"
        return pickle.loads(answer[0])

    def send(self, request: Request) -> None:
        """Send a request; a step without a call has its actions in the block."""
        if self._session.is_open:
            actions = rows_of(self._space, self.block.actions, request.rows) if request.call is None else None
            self._refs[request] = self._actor.run.remote(
                request.call or self.pack_step(request.rows, actions)
            )

    @property
    def next_ref(self) -> Any:
        """The reference to the answer to the first of its requests; None if it was not sent."""
        return self._refs.get(self.requests[0]) if self.requests else None

    def read(self, request: Request) -> Any:
        """Return the rest of an answer, or why it is lost; put the numbers into the block."""
        answer = self._result(self._refs.pop(request), 0)
        if isinstance(answer, str):
            return answer
        rest, idle, *numbers = answer
        self.block.idle[self.rows.start] += idle
        if request.kind is Kind.STEP and not request.is_reset and numbers:
            rows, block = request.rows, self.block
            block.rewards[rows], block.terminated[rows], block.truncated[rows] = numbers
        return pickle.loads(rest) if isinstance(rest, bytes) else rest

    def trouble(self, now: float) -> str | None:
        """Return why it will not answer; that an actor died is an answer of Ray's."""
        self._session.check()
        return _LATE if now > self.since + self.timeout else None

    def _result(self, ref: Any, timeout: float) -> tuple[Any, ...] | str:
        """Return a call's result, or why there is none."""
        self._session.check()
        ray = self._session.ray
        try:
            return unpacked(ray.get(ref, timeout=max(timeout, 0)))
        except ray.exceptions.GetTimeoutError:
            return _LATE
        except ray.exceptions.RayError as error:
            return f"the worker died ({type(error).__name__}: {str(error).splitlines()[-1].split('. ')[0]})"

    def end(self, deadline: float) -> None:
        """Wait until the environments are closed."""
        if self._session.is_open:
            answer = self._result([*self._refs.values()][-1], deadline - time.monotonic())
            if not isinstance(answer, str):
                warn_of_failure(pickle.loads(answer[0]))

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
