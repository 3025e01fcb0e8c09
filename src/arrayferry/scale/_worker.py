"""What runs in a worker: some of the environments, and their rows of the block."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing import connection
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from arrayferry._boundary.autoreset import step_with_autoreset
from arrayferry.scale._arguments import check_spaces, make_env
from arrayferry.scale._block import Block, copy_into, index_of, map_arrays
from arrayferry.scale._driver import Description
from arrayferry.scale._line import Bell, Line, receive_memory
from arrayferry.scale._pickling import Failure, dumps, picklable
from arrayferry.scale._returns import check_info, misfit, misfit_of_step

if TYPE_CHECKING:
    import socket

    import gymnasium as gym
    from gymnasium.vector import AutoresetMode

__all__ = ["Answers", "Channel", "Runner", "Task", "call", "render", "work"]

# What is not in the block: by environment, the observation or None, and pickled infos, in their order.
Answers = dict[int, tuple[Any, list[bytes]]]


class Task(NamedTuple):
    """What a worker is to do."""

    env_fns: bytes
    rows: slice
    num_envs: int
    autoreset_mode: AutoresetMode


class Channel(NamedTuple):
    """How a worker and its driver talk: semaphores, and a line for what is rare.

    Requests are numbered, and answered in that order: `go` is released once for each, and `done` once for
    each answer. A request is a step of the rows that have its number in the block; if none has, it is a
    method call, which comes through the line.
    """

    go: Any
    done: Any
    bell: Bell | None
    socket: socket.socket
    first_number: int


def work(task: Task, channel: Channel, lifeline: Any) -> None:
    """Step environments until the driver closes them, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides
    np.random.seed()  # what a fork has copied would be the same in all workers
    _end_with(lifeline)
    line, who = Line(channel.socket), f"the worker of environments {task.rows.start} to {task.rows.stop - 1}"
    try:
        runner = Runner(task)
        description = dumps(runner.describe())
    except Exception as error:
        line.send(0, dumps(Failure(picklable(error, who))))
        return
    line.send(0, description)
    try:
        runner.write_into(Block.over(receive_memory(channel.socket), *runner.spaces, task.num_envs))
        for number in itertools.count(channel.first_number):
            _answer(runner, number, channel, line, who)
            if runner.is_closed:
                return
    except (EOFError, OSError):
        return  # the driver is gone


def _answer(runner: Runner, number: int, channel: Channel, line: Line, who: str) -> None:
    """Wait for a request, and answer it."""
    block, own = runner.block, runner.task.rows
    start = perf_counter()
    channel.go.acquire()
    block.idle[own.start] += perf_counter() - start
    rows = np.flatnonzero(block.asked[own] == number).tolist()
    message = b"" if rows else line.receive()[1]
    try:
        if rows:
            answer = runner.step(rows)
        else:
            rows = [0]
            name, arguments, options = pickle.loads(message)
            if name in ("step", "reset"):
                rows = arguments[0]
            answer = runner.run(name, arguments, options)
        data = dumps(answer) if answer else None
    except Exception as error:
        data = dumps(Failure(picklable(error, who)))
    index = index_of(rows, own.start)
    block.has_more[index], block.answered[index] = data is not None, number
    channel.done.release()  # first, because writing to a full socket waits for its reader
    if channel.bell is not None:
        channel.bell.ring()
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

    def __init__(self, task: Task) -> None:
        env_fns: list[Callable[[], gym.Env[Any, Any]]] = cloudpickle.loads(task.env_fns)
        self.task, self._mode = task, task.autoreset_mode
        self.envs = [make_env(env_fn) for env_fn in env_fns]
        spaces = [(env.observation_space, env.action_space) for env in self.envs]
        for row, each in enumerate(spaces, task.rows.start):
            check_spaces(row, each, spaces[0], task.rows.start)
        self.spaces = self._space, _ = spaces[0]
        self._one, self._actions = (batch_space(*each) for each in zip(self.spaces, (1, len(self.envs))))
        self._is_over = [False] * len(self.envs)
        self.is_closed = False

    def describe(self) -> Description:
        """Describe the environments."""
        return Description(*self.spaces, self.envs[0].metadata, self.envs[0].render_mode)

    def write_into(self, block: Block) -> None:
        """Write what a step returns into a block."""
        self.block = block
        own, count = self.task.rows, len(block.half)
        self._rows = [
            [map_arrays(itemgetter((half + row, ...)), block.observations) for half in (0, count)]
            for row in range(own.start, own.stop)
        ]

    def step(self, rows: Sequence[int], actions: Any = None) -> Answers:
        """Step some environments; the actions are in the block unless they are given."""
        block, first = self.block, self.task.rows.start
        if actions is None:  # copies, for the environments to keep
            index = index_of(rows, first)
            actions = map_arrays(lambda array: array[index].copy(), block.actions)
        answers: Answers = {}
        for row, action in zip(rows, iterate(self._actions, actions), strict=True):
            step, reset = partial(self._step, row, action), partial(self._reset, row)
            # Infos are pickled immediately, because environments may reuse their dicts and arrays.
            obs, *numbers, info, final = step_with_autoreset(
                step, reset, self._mode, self._is_over[row], dumps
            )
            place = first + row
            block.rewards[place], block.terminated[place], block.truncated[place] = numbers
            self._is_over[row] = bool(block.terminated[place] or block.truncated[place])
            self._add_to(answers, row, obs, [] if final is None else [final], info)
        return answers

    def reset(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> Answers:
        """Reset some environments."""
        answers: Answers = {}
        for row, seed in zip(rows, seeds):
            obs, info = self._reset(row, seed=seed, options=options)
            self._is_over[row] = False
            self._add_to(answers, row, obs, [], info)
        return answers

    def start(self, rows: Sequence[int], seeds: Sequence[int | None], options: Any) -> None:
        """Reset some environments, and show nothing of it."""
        for row, seed in zip(rows, seeds):
            self._reset(row, seed=seed, options=options)

    def _step(self, row: int, action: Any) -> Any:
        result, block = self.envs[row].step(action), self.block
        place = self.task.rows.start + row
        try:
            _, block.rewards[place], block.terminated[place], block.truncated[place], info = result
        except (TypeError, ValueError) as error:
            targets = block.rewards, block.terminated, block.truncated
            raise misfit_of_step(place, result, error, targets) from error
        if info:
            check_info(place, info)
        return result

    def _reset(self, row: int, **options: Any) -> Any:
        result = self.envs[row].reset(**options)
        place = self.task.rows.start + row
        try:
            _, info = result
        except (TypeError, ValueError) as error:
            raise misfit("reset", place, result, "(observation, info)", error) from error
        if info:
            check_info(place, info)
        return result

    def _add_to(self, answers: Answers, row: int, obs: Any, infos: list[bytes], info: Any) -> None:
        """Write an observation into its row, and add to the answers what does not go there."""
        rest = self._show(row, obs)
        if info:
            infos.append(dumps(info))
        if infos or rest is not None:
            answers[row] = rest, infos

    def _show(self, row: int, obs: Any) -> Any:
        """Write an observation into its row; return it if it has none, in the form that its space has."""
        target = self._rows[row][self.block.half[self.task.rows.start + row]]
        if copy_into(target, obs):
            return None
        # Numbers, other dtypes, other types: stacked as Gymnasium does, which may raise.
        batch: Any = map_arrays(lambda array: array[np.newaxis], target)
        if is_new := batch is None:
            batch = create_empty_array(self._space, 1)
        try:
            made = concatenate(self._space, [obs], batch)
        except Exception as error:
            where = self.task.rows.start + row
            raise misfit("observation", where, obs, f"a member of {self._space}", error) from error
        return next(iter(iterate(self._one, made))) if is_new else None

    def run(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a method of this worker, and return its answer."""
        answer = getattr(self, name)(*arguments, **options)
        return answer if name in ("step", "reset") else (answer,)

    def run_on(
        self, indices: Sequence[int], function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """Call a function with each of some environments, and return the results."""
        return [function(self.envs[index], *args, **kwargs) for index in indices]

    def set_attr(self, name: str, indices: Sequence[int], values: Sequence[Any]) -> None:
        """Set an attribute of some environments, each to its value."""
        for index, value in zip(indices, values):
            self.envs[index].set_wrapper_attr(name, value)

    def set_again(self, call: bytes, indices: Sequence[int]) -> None:
        """Repeat a call of `set_attr`, for some environments only."""
        _, (name, *others), _ = pickle.loads(call)
        values = dict(zip(*others))
        self.set_attr(name, indices, [values[index] for index in indices])

    def close(self) -> None:
        """Close all environments, and only then raise what one of them has raised."""
        self.is_closed = True
        with ExitStack() as stack:
            for env in reversed(self.envs):
                stack.callback(env.close)


def call(env: gym.Env[Any, Any], name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call a method of an environment, or get an attribute that is not callable."""
    attribute = env.get_wrapper_attr(name)
    return attribute(*args, **kwargs) if callable(attribute) else attribute


def render(env: gym.Env[Any, Any]) -> Any:
    """Return a frame of an environment."""
    return env.render()
