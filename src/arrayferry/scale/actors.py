"""`RayVectorEnv`: environments in Ray actors, on one host or many."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from gymnasium.vector import AutoresetMode

from arrayferry.errors import NotInstalledError, OptionError, WorkerError
from arrayferry.scale._actor import Actor, ActorTask, unpacked
from arrayferry.scale._arguments import seconds
from arrayferry.scale._block import Block, copy_into, map_arrays
from arrayferry.scale._driver import State, Worker, warn_of_failure
from arrayferry.scale._faults import WorkerVectorEnv

if TYPE_CHECKING:
    import gymnasium as gym

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
        address: the cluster; `"local"` starts one on this machine, and never attaches to another.
        step_timeout: the number of seconds after which a worker that does not answer is replaced.
        restart_timeout: how many seconds a worker has to find a host and make its environments.
        max_faults: how many faults of one worker, without a good step between them, raise a `WorkerError`.
        actor_options: Ray's options for each actor, such as `num_cpus`, `resources`,
            `scheduling_strategy` (without it, the actors are spread over the hosts) and `runtime_env`.
        autoreset_mode: what happens when an episode ends.

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
        workers: int | None = None,
        address: str = "local",
        step_timeout: float = 60,
        restart_timeout: float = 120,
        max_faults: int = 3,
        actor_options: Mapping[str, Any] | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        super().__init__(env_fns, workers, autoreset_mode, step_timeout, max_faults)
        restart_timeout = seconds("restart_timeout", restart_timeout)
        options = {"scheduling_strategy": "SPREAD", **(actor_options or {})}
        if refused := [name for name in _REFUSED if name in options]:
            raise OptionError(f"actor_options[{refused[0]!r}] cannot be set", "leave it out")
        self._session = session = _Session(address)
        ray = session.ray
        actor = ray.remote(**options, **_OURS)(Actor)
        settings = max(int(options.get("num_cpus") or 1), 1), self._timeout, max_faults
        workers = workers or sum(node["Alive"] and "CPU" in node["Resources"] for node in ray.nodes()) or 1
        tasks = [ActorTask(task, *settings) for task in self._tasks(env_fns, workers)]
        self._start([_Worker(session, actor, task, restart_timeout) for task in tasks])

    def _make_block(self) -> Block:
        return Block.made_by(np.zeros, *self._single_spaces, self.num_envs)

    def _by_arrival(self, workers: Sequence[Worker], deadline: float) -> Iterable[Worker]:
        """Return those first that have answered, half of the rest at a time: each wait costs CPU time."""
        self._session.check()
        actors = cast("Sequence[_Worker]", workers)
        for worker in actors:
            worker.attach(self._block)  # again: an interrupt may have kept it from the last one
        starting = [worker for worker in actors if worker.pending is None]
        waiting = {worker.pending: worker for worker in actors if worker.pending is not None}
        while len(waiting) > 1:
            half, seconds = (len(waiting) + 1) // 2, max(deadline - time.monotonic(), 0)
            ready, _ = self._session.ray.wait(list(waiting), num_returns=half, timeout=seconds)
            if not ready:
                break
            yield from map(waiting.pop, ready)
        yield from (*waiting.values(), *starting)

    def _observations(self) -> Any:
        """Return the arrays that the answers were copied into, and make new ones for the next answers."""
        observations = self._block.observations[self._half]
        if observations is None:
            return super()._observations()
        for worker in self._workers:
            worker.show_last(self._half)  # if only other workers' environments were reset
        others = map_arrays(np.empty_like, observations)
        self._block = self._block._replace(observations=(others, others))
        for worker in self._workers:
            worker.attach(self._block)
        return observations


class _Worker(Worker):
    """The driver's side of an actor.

    An observation is copied once, when the actor has answered, into the array that the caller gets. What Ray
    has received is kept until the next answer, to be shown again if the actor dies: nobody can write to it.
    """

    @property
    def start_hint(self) -> str:
        """What to do about a worker that does not start."""
        return "it needs a host that has what actor_options ask for, and everything that env_fns import"

    def __init__(self, session: _Session, actor: Any, task: ActorTask, restart_timeout: float) -> None:
        super().__init__(task.task.rows)
        self._session, self._class, self._task, self._timeout = session, actor, task, restart_timeout
        self._actor: Any = None
        self._made: Any = None  # like the next, a reference to the answer to one request
        self._ref: Any = None
        self._half, self._name = 0, ""  # of the last request
        self._last: Any = None
        self._is_shown = False

    def launch(self) -> None:
        """Start an actor; one that was killed is never reused."""
        self._session.check()
        self._actor = self._class.remote(self._task)
        self._made, self._ref = self._actor.make.remote(), None

    def attach(self, block: Block) -> None:
        """Take its rows of a block, which are still empty."""
        super().attach(block)
        self._is_shown = False

    def wait_until_ready(self) -> Any:
        """Wait for the environments; return their description, a `Failure`, or why there are none."""
        answer = self._result(self._made, self._timeout)
        if isinstance(answer, str):
            return f"a worker did not start: {answer}"
        return pickle.loads(answer[1])

    def send(self, half: int, name: str, call: bytes | None) -> None:
        """Ask for a method call; without one, for a step with the actions in the block."""
        self._half, self._name, self._ref = half, name, None
        if self._session.is_open:
            self._ref = self._actor.run.remote(call or self.pack("step", self.block.actions))

    def reply(self, deadline: float) -> Any:
        """Wait as `answer` does, for a worker that has started, and put the answer into the block."""
        answer = self._result(self._ref, deadline - time.monotonic())
        if isinstance(answer, str):
            return answer
        obs, rest, *others = answer
        if not others:
            return pickle.loads(rest)
        if self._name not in ("step", "reset"):  # a reset of which nothing is shown
            return None
        [infos], block = others, self.block
        if self._name == "step":  # a reset in the middle of a step changes no reward
            block.rewards[:], block.terminated[:], block.truncated[:] = rest
        if block.observations[self._half] is None:
            return obs, infos
        self._last, self._is_shown = obs, False
        self.show_last(self._half)
        return (None, infos) if infos else None

    @property
    def pending(self) -> Any:
        """The reference to the answer; None while the actor starts, which has its own timeout."""
        return self._ref if self.state is State.BUSY else None

    def show_last(self, half: int) -> None:
        """Show the last observations in one half of the block, if they are not there yet."""
        if self._is_shown:
            return
        target = self.block.observations[half]
        if isinstance(self._last, list):  # large ones, one array per environment
            np.stack(self._last, out=target)
        else:
            copy_into(target, self._last)
        self._is_shown = True

    def _result(self, ref: Any, timeout: float) -> tuple[Any, ...] | str:
        """Return a call's result, or why there is none."""
        self._session.check()
        ray = self._session.ray
        try:
            return unpacked(ray.get(ref, timeout=max(timeout, 0)))
        except ray.exceptions.GetTimeoutError:
            return "the worker did not answer in time"
        except ray.exceptions.RayError as error:
            return f"the worker died ({type(error).__name__}: {str(error).splitlines()[-1].split('. ')[0]})"

    def end(self, deadline: float) -> None:
        """Wait until the environments are closed."""
        if self._session.is_open:
            answer = self._result(self._ref, deadline - time.monotonic())
            if not isinstance(answer, str):
                warn_of_failure(pickle.loads(answer[1]))

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
