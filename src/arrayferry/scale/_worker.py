"""What runs in a worker process: some of the environments, and their rows of the block."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing import connection
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from arrayferry.errors import UnsupportedError
from arrayferry.scale._arguments import check_spaces, make_env
from arrayferry.scale._block import Block, copy_into, map_arrays
from arrayferry.scale._driver import Description
from arrayferry.scale._line import Line, receive_memory
from arrayferry.scale._pickling import Failure, dumps, picklable

if TYPE_CHECKING:
    import socket

    import gymnasium as gym

__all__ = ["CALL", "STEP", "Channel", "Runner", "Task", "call", "render", "work"]

# What the driver asks for: a step, or a method call, whose name and arguments come through the line.
STEP, CALL = 1, 2


class Task(NamedTuple):
    """What a worker is to do."""

    env_fns: bytes
    rows: slice
    num_envs: int
    autoreset_mode: AutoresetMode


class Channel(NamedTuple):
    """How a worker and its driver talk: semaphores, a few shared numbers, and a line for what is rare.

    The `numbers` are those of a request (its own number, what is asked for, which half of the block to
    write), and whether the line has more of the answer, whose number is in its rows of the block.
    """

    go: Any
    done: Any
    numbers: Any
    socket: socket.socket


def work(task: Task, channel: Channel, lifeline: Any) -> None:
    """Step environments until the driver closes them, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides
    _end_with(lifeline)
    line, who = Line(channel.socket), f"the worker of environments {task.rows.start} to {task.rows.stop - 1}"
    try:
        worker = Runner(task, channel.socket)
        description = dumps(worker.describe())
    except Exception as error:
        line.send(0, dumps(Failure(picklable(error, who))))
        return
    line.send(0, description)
    while not worker.is_closed:
        channel.go.acquire()
        number, what, half, *_ = channel.numbers
        try:
            call = None if what == STEP else line.receive()[1]
        except EOFError:
            return
        worker.number = number
        try:
            answer = worker.step(half) if call is None else worker.run(half, *pickle.loads(call))
            data = None if answer is None else dumps(answer)
        except Exception as error:
            what, data = CALL, dumps(Failure(picklable(error, who)))
        if what == CALL:  # a step has numbered its rows one by one, unless it raised
            worker.block.answered[:] = number
        channel.numbers[3] = data is not None
        channel.done.release()  # first, because writing to a full socket waits for its reader
        if data is not None:
            line.send(number, data)


def _end_with(lifeline: Any) -> None:
    """End this process when the driver closes the other end of a pipe, or ends.

    On Linux the kernel does it, even while an environment holds the GIL. It is not asked to do so when the
    parent ends (`PR_SET_PDEATHSIG`): that may be the fork server, or a thread.
    """
    try:
        import fcntl

        file = lifeline.fileno()
        fcntl.fcntl(file, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_ASYNC)
        if lifeline.poll():  # it was closed before
            os._exit(1)
    except (ImportError, AttributeError, OSError):  # on other systems
        wait_for_end: Any = lambda: connection.wait([lifeline]) and os._exit(1)  # noqa: E731
        threading.Thread(target=wait_for_end, daemon=True).start()


class Runner:
    """The environments of a worker, run as by `SyncVectorEnv`, but writing into rows of the block."""

    def __init__(self, task: Task, line: socket.socket | None = None) -> None:
        env_fns: list[Callable[[], gym.Env[Any, Any]]] = cloudpickle.loads(task.env_fns)
        self._task, self._mode, self._socket = task, task.autoreset_mode, line
        self.envs = [make_env(env_fn) for env_fn in env_fns]
        self._spaces = [(env.observation_space, env.action_space) for env in self.envs]
        for row, spaces in enumerate(self._spaces, task.rows.start):
            check_spaces(row, spaces, self._spaces[0], task.rows.start)
        self._space = self.envs[0].observation_space
        self._actions = batch_space(self.envs[0].action_space, len(self.envs))
        self._last: list[Any] = [None] * len(self.envs)  # the last observation of each environment
        self._is_over = [False] * len(self.envs)
        self.is_closed, self.number = False, 0  # of the request that is answered

    def describe(self) -> Description:
        """Describe the environments."""
        return Description(*self._spaces[0], self.envs[0].metadata, self.envs[0].render_mode)

    def attach(self) -> None:
        """Take the rows of this worker in the block, whose memory follows the request."""
        assert self._socket is not None
        memory = receive_memory(self._socket)
        self.write_into(Block.over(memory, *self._spaces[0], self._task.num_envs).rows(self._task.rows))

    def write_into(self, block: Block) -> None:
        """Write what a step returns into a block with a row for each of these environments."""
        self.block = block
        self._rows = [
            [map_arrays(itemgetter((index, ...)), half) for index in range(len(self.envs))]
            for half in self.block.observations
        ]

    def step(self, half: int, actions: Any = None) -> Any:
        """Step the environments; the actions are in the block unless they are given."""
        if actions is None:
            # Copies, for the environments to keep.
            actions = map_arrays(lambda array: array.copy(), self.block.actions)
        # Infos are pickled immediately, because environments may reuse their dicts and arrays.
        block, mode, fits = self.block, self._mode, True
        infos: list[tuple[int, bytes]] = []
        for index, (env, action) in enumerate(zip(self.envs, iterate(self._actions, actions), strict=True)):
            if self._is_over[index] and mode is not AutoresetMode.SAME_STEP:
                if mode is AutoresetMode.DISABLED:
                    raise UnsupportedError("a step of an environment whose episode is over", "reset it first")
                obs, info = self._reset(index)
                block.rewards[index], block.terminated[index], block.truncated[index] = 0, False, False
            else:
                result = env.step(action)
                try:
                    obs, block.rewards[index], block.terminated[index], block.truncated[index], info = result
                except (TypeError, ValueError) as error:
                    raise self._explain(index, result, error) from error
                if info:
                    self._check_info(index, info)
            self._is_over[index] = is_over = block.terminated[index] or block.truncated[index]
            if is_over and mode is AutoresetMode.SAME_STEP:
                infos.append((index, dumps({"final_obs": obs, "final_info": info})))
                obs, info = self._reset(index)
            fits = self._show(half, index, obs) and fits
            if info:
                infos.append((index, dumps(info)))
            block.answered[index] = self.number
        return self._answer(half, fits, infos)

    def reset(self, half: int, seeds: Sequence[int | None], options: dict[str, Any] | None) -> Any:
        """Reset all environments, or those of a mask in the options."""
        mask = None if options is None else options.pop("reset_mask", None)
        fits, infos = True, []
        for index in range(len(self.envs)):
            if mask is None or mask[index]:
                obs, info = self._reset(index, seed=seeds[index], options=options)
                self._is_over[index] = False
                fits = self._show(half, index, obs) and fits
                if info:
                    infos.append((index, dumps(info)))
        return self._answer(half, fits, infos)

    def _reset(self, index: int, **options: Any) -> Any:
        result = self.envs[index].reset(**options)
        try:
            _, info = result
        except (TypeError, ValueError) as error:
            raise self._misfit("reset", index, result, "(observation, info)", error) from error
        if info:
            self._check_info(index, info)
        return result

    def _check_info(self, index: int, info: Any) -> None:
        """Refuse an environment's info that is no dict, or could be taken for what a fault adds."""
        if not hasattr(info, "items"):
            raise self._misfit("info", index, info, "a dict")
        if not _OURS.isdisjoint(info):
            key = next(key for key in info if key in _OURS)
            form = f"no key {key!r}, which reports lost workers: rename it, there or in a wrapper"
            raise self._misfit("info", index, info, form)

    def _misfit(self, what: str, index: int, value: Any, form: str, error: Any = None) -> Exception:
        """Return the error about what an environment has returned."""
        reason = f" ({error})" if error else ""
        where = f"{what} of environment {self._task.rows.start + index}"
        return _ReturnError(f"{value!r:.200}{reason}", f"return {form}", where)

    def _explain(self, index: int, result: Any, error: Exception) -> Exception:
        """Return the error about what a step has returned, with the place in it."""
        if isinstance(result, (tuple, list)) and len(result) == 5:
            for what, value, target in zip(("reward", "terminated", "truncated"), result[1:], self.block[2:]):
                try:
                    target[index] = value
                except (TypeError, ValueError):
                    return self._misfit(what, index, value, "a single number", error)
        form = "(observation, reward, terminated, truncated, info)"
        return self._misfit("step", index, result, form, error)

    def _show(self, half: int, index: int, obs: Any) -> bool:
        """Write an observation into its row; return whether it has the row's form."""
        self._last[index] = obs
        return copy_into(self._rows[half][index], obs)

    def _answer(self, half: int, fits: bool, infos: list[tuple[int, bytes]]) -> Any:
        """Return what has to go through the pipe: None if everything is in the block."""
        if fits:
            return (None, infos) if infos else None
        # Numbers, other dtypes, other types: stacked as Gymnasium does, which may raise.
        target = self.block.observations[half]
        empty: Any = create_empty_array(self._space, len(self.envs)) if target is None else target
        try:
            obs = concatenate(self._space, self._last, empty)
        except Exception:
            self._refuse_misfits()
            raise
        return (obs if target is None else None), infos

    def _refuse_misfits(self) -> None:
        """Raise an error about the first observation that cannot be stacked."""
        for index, obs in enumerate(self._last):
            empty: Any = create_empty_array(self._space, 1)
            try:
                concatenate(self._space, [obs], empty)
            except Exception as error:
                raise self._misfit("observation", index, obs, f"a member of {self._space}", error) from error

    def run(self, half: int, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a method of this worker, and return its answer."""
        if name in ("step", "reset"):
            return getattr(self, name)(half, *arguments)
        return (getattr(self, name)(*arguments, **options),)

    def run_on(
        self, indices: Sequence[int], function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """Call a function with each of some environments, and return the results."""
        return [function(self.envs[index], *args, **kwargs) for index in indices]

    def set_attr(self, name: str, indices: Sequence[int], values: Sequence[Any]) -> None:
        """Set an attribute of some environments, each to its value."""
        for index, value in zip(indices, values):
            self.envs[index].set_wrapper_attr(name, value)

    def close(self) -> None:
        """Close all environments, and only then raise what one of them has raised."""
        self.is_closed = True
        with ExitStack() as stack:
            for env in reversed(self.envs):
                stack.callback(env.close)


class _ReturnError(UnsupportedError, ValueError):
    """What an environment has returned cannot be used; NumPy raises one or the other, too."""


# What a fault adds to the infos, with the masks of these keys.
_OURS = frozenset(["fault", "fault_reason", "_fault", "_fault_reason"])


def call(env: gym.Env[Any, Any], name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call a method of an environment, or get an attribute that is not callable."""
    attribute = env.get_wrapper_attr(name)
    return attribute(*args, **kwargs) if callable(attribute) else attribute


def render(env: gym.Env[Any, Any]) -> Any:
    """Return a frame of an environment."""
    return env.render()
