"""What runs in a worker: some of the environments, and their rows of the block."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from multiprocessing import connection
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from arrayferry._boundary.autoreset import step_with_autoreset
from arrayferry._core.messages import note_on
from arrayferry.scale._arguments import check_spaces, make_env
from arrayferry.scale._block import Block, copy_into, index_of, map_arrays, order_memory
from arrayferry.scale._line import Line, receive_memory
from arrayferry.scale._pickling import dumps, failure_of
from arrayferry.scale._returns import check_info, misfit, misfit_of_step

if TYPE_CHECKING:
    import socket

    import gymnasium as gym
    from gymnasium.vector import AutoresetMode

__all__ = ["Answers", "Channel", "Description", "Runner", "Task", "call", "render", "work"]

# For each row that has answered: its observation, if that is not in the block, and pickled infos, in their
# order; or what a method call has returned; or a `Failure`; or None, if all of it is in the block.
Answers = Iterator[tuple[int, Any]]


class Description(NamedTuple):
    """What a worker says about its environments, which have the same spaces."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None


class Task(NamedTuple):
    """What a worker is to do.

    A successor is also told the seeds of the first resets, and the attributes that the caller has set, as
    pickled calls of `set_attr`.
    """

    env_fns: bytes
    rows: range
    num_envs: int
    autoreset_mode: AutoresetMode
    seeds: Mapping[int, int | None] = {}
    attributes: Sequence[bytes] = ()


class Channel(NamedTuple):
    """How a worker and its driver talk: semaphores, and a line for what is rare.

    Requests are numbered, and handled in that order: `go` is released once for each, after its number was
    written into the rows that it asks. The driver waits for `done`, which is released when as many rows have
    answered as it wants.
    """

    go: Any
    done: Any
    socket: socket.socket
    first_number: int
    is_row_by_row: bool


def work(task: Task, channel: Channel, lifeline: Any) -> None:
    """Step environments until the driver closes them, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides
    np.random.seed()  # what a fork has copied would be the same in all workers
    _end_with(lifeline)
    line = Line(channel.socket)
    try:
        runner = Runner(task)
        description = dumps(runner.describe())
    except Exception as error:
        line.send(0, dumps(failure_of(error, task.rows)))
        return
    line.send(0, description)
    with suppress(EOFError, OSError):  # the driver is gone
        runner.write_into(Block.over(receive_memory(channel.socket), *runner.spaces, task.num_envs))
        for number in itertools.count(channel.first_number):
            _answer(runner, number, channel, line)
            if runner.is_closed:
                return


def _answer(runner: Runner, number: int, channel: Channel, line: Line) -> None:
    """Wait for a request, and answer it: each row as soon as it is done, or all of them together."""
    block, own = runner.block, runner.task.rows
    start = perf_counter()
    channel.go.acquire()
    block.idle[own.start] += perf_counter() - start
    rows: Sequence[int] = [*itertools.compress(own, (block.asked[own.start : own.stop] == number).tolist())]
    if len(rows) == len(own):
        rows = own
    call = line.receive()[1] if not rows or block.has_message[rows[0]] else None
    answers = runner.answer(rows, call)
    if channel.is_row_by_row:
        for row, rest in answers:
            _tell(runner, number, channel, line, [row], {} if rest is None else {row: rest})
    else:
        rests = {row: rest for row, rest in answers if rest is not None}
        _tell(runner, number, channel, line, rows or own[:1], rests)


def _tell(
    runner: Runner, number: int, channel: Channel, line: Line, rows: Sequence[int], rests: dict[int, Any]
) -> None:
    """Tell the driver that some rows have answered, and what of that is not in the block."""
    block, index, rest = runner.block, index_of(rows), b""
    block.has_message[index] = False
    if rests:
        try:
            message = dumps(rests)
        except Exception as error:
            message = dumps(dict.fromkeys(rests, failure_of(error, runner.task.rows)))
        block.has_message[[*rests]] = True
        rest = line.send_at_once(number, message)
    order_memory()
    block.answered[index] = number
    order_memory()
    if block.count_answered() >= block.wanted[0]:
        channel.done.release()
    if rest:  # last, because writing to a full socket waits for its reader
        line.send_rest(rest)


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
        self.envs = {row: make_env(env_fn) for row, env_fn in zip(task.rows, env_fns)}
        spaces = [(env.observation_space, env.action_space) for env in self.envs.values()]
        for row, each in zip(task.rows, spaces):
            check_spaces(row, each, spaces[0], task.rows.start)
        self.spaces = self._space, _ = spaces[0]
        self._one, self._actions = (batch_space(*each) for each in zip(self.spaces, (1, len(self.envs))))
        self._first_seeds = dict(task.seeds)
        self._over = set(task.seeds)  # the next step resets a successor's environments
        # What raised when it was set before the first reset, which some setters need.
        self._unset = defaultdict[int, list[tuple[str, Any]]](list)
        self.is_closed = False
        for packed in task.attributes:
            name, values = pickle.loads(packed)[1]
            for row, value in values.items():
                try:
                    self.envs[row].set_wrapper_attr(name, value)
                except Exception:
                    self._unset[row].append((name, value))

    def describe(self) -> Description:
        """Describe the environments."""
        first = self.envs[self.task.rows.start]
        return Description(*self.spaces, first.metadata, first.render_mode)

    def write_into(self, block: Block) -> None:
        """Write what a step returns into a block."""
        self.block, count = block, len(block.half)
        self._targets = {
            row: [map_arrays(itemgetter((half + row, ...)), block.observations) for half in (0, count)]
            for row in self.task.rows
        }

    def answer(self, rows: Sequence[int], request: bytes | bytearray | None) -> Answers:
        """Answer a request: a method call, or a step with the actions in the block.

        What is raised is the answer of all rows that have none yet.
        """
        asked = rows or self.task.rows[:1]  # to close asks no row
        count = 0
        try:
            for count, rest in enumerate(self._run(rows, request), 1):
                yield asked[count - 1], rest
        except Exception as error:
            failure = failure_of(error, self.task.rows)
            yield from ((row, failure) for row in asked[count:])

    def _run(self, rows: Sequence[int], request: bytes | bytearray | None) -> Iterable[Any]:
        if request is None:
            index = index_of(rows)  # copies, for the environments to keep
            batch = map_arrays(lambda array: array[index].copy(), self.block.actions)
            return self.step(dict(zip(rows, iterate(self._actions, batch), strict=True)), rows)
        name, arguments, options = pickle.loads(request)
        method: Callable[..., Any] = getattr(self, name)
        if name in ("step", "reset"):
            each: Iterable[Any] = method(*arguments, rows)
            return each
        return [(method(*arguments, **options),)]

    def step(self, actions: Mapping[int, Any], rows: Iterable[int]) -> Iterator[Any]:
        """Step some environments, one after the other."""
        block = self.block
        for row in rows:
            step, reset = partial(self._step, row, actions[row]), partial(self._reset, row)
            # Infos are pickled immediately, because environments may reuse their dicts and arrays.
            obs, *numbers, info, final = step_with_autoreset(
                step, reset, self._mode, row in self._over, dumps
            )
            block.rewards[row], block.terminated[row], block.truncated[row] = numbers
            if block.terminated[row] or block.truncated[row]:
                self._over.add(row)
            else:
                self._over.discard(row)
            yield self._rest(row, obs, [] if final is None else [final], info)

    def reset(
        self, seeds: Mapping[int, int], options: dict[str, Any] | None, rows: Iterable[int]
    ) -> Iterator[Any]:
        """Reset some environments, one after the other; their rewards and flags are the driver's business."""
        for row in rows:
            obs, info = self._reset(row, seed=seeds.get(row), options=options)
            self._over.discard(row)
            yield self._rest(row, obs, [], info)

    def _step(self, row: int, action: Any) -> Any:
        result, block = self.envs[row].step(action), self.block
        try:
            _, block.rewards[row], block.terminated[row], block.truncated[row], info = result
        except (TypeError, ValueError) as error:
            targets = block.rewards, block.terminated, block.truncated
            raise misfit_of_step(row, result, error, targets) from error
        if info:
            check_info(row, info)
        return result

    def _reset(self, row: int, **options: Any) -> Any:
        first_seed = self._first_seeds.get(row)
        if first_seed is not None and options.get("seed") is None:
            options["seed"] = first_seed
        result = self.envs[row].reset(**options)
        try:
            _, info = result
        except (TypeError, ValueError) as error:
            raise misfit("reset", row, result, "(observation, info)", error) from error
        if info:
            check_info(row, info)
        self._first_seeds.pop(row, None)
        for name, value in self._unset.pop(row, ()):
            try:
                self.envs[row].set_wrapper_attr(name, value)
            except Exception as error:
                who = f"repeated in a new worker of environment {row}"
                note_on(error, f"from set_attr({name!r}, ...), {who}")
                raise
        return result

    def _rest(self, row: int, obs: Any, infos: list[bytes], info: Any) -> Any:
        """Write an observation into its row; return what does not go there, or None."""
        rest = self._show(row, obs)
        if info:
            infos.append(dumps(info))
        return (rest, infos) if infos or rest is not None else None

    def _show(self, row: int, obs: Any) -> Any:
        """Write an observation into its row; return it if it has none, in the form that its space has."""
        target = self._targets[row][self.block.half[row]]
        if copy_into(target, obs):
            return None
        # Numbers, other dtypes, other types: stacked as Gymnasium does, which may raise.
        batch: Any = map_arrays(lambda array: array[np.newaxis], target)
        if is_new := batch is None:
            batch = create_empty_array(self._space, 1)
        try:
            made = concatenate(self._space, [obs], batch)
        except Exception as error:
            raise misfit("observation", row, obs, f"a member of {self._space}", error) from error
        return next(iter(iterate(self._one, made))) if is_new else None

    def run_on(
        self, rows: Sequence[int], function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """Call a function with each of some environments, and return the results.

        A successor's environment that is rendered before its first reset gets that, and the same again later.
        """
        for row in self._first_seeds if function is render else ():
            self.envs[row].reset(seed=self._first_seeds[row])
        return [function(self.envs[row], *args, **kwargs) for row in rows]

    def set_attr(self, name: str, values: Mapping[int, Any]) -> None:
        """Set an attribute of some environments, each to its value."""
        for row, value in values.items():
            self.envs[row].set_wrapper_attr(name, value)

    def close(self) -> None:
        """Close all environments, and only then raise what one of them has raised."""
        self.is_closed = True
        with ExitStack() as stack:
            for env in reversed(self.envs.values()):
                stack.callback(env.close)


def call(env: gym.Env[Any, Any], name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call a method of an environment, or get an attribute that is not callable."""
    attribute = env.get_wrapper_attr(name)
    return attribute(*args, **kwargs) if callable(attribute) else attribute


def render(env: gym.Env[Any, Any]) -> Any:
    """Return a frame of an environment."""
    return env.render()
