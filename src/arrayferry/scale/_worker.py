"""What runs in a worker process: some of the environments, and their rows of the block."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing import connection, parent_process
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from arrayferry.errors import UnsupportedError
from arrayferry.scale._arguments import check_spaces, make_env
from arrayferry.scale._block import Block, copy_into, map_arrays
from arrayferry.scale._pickling import Failure, dumps, picklable

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium import spaces

__all__ = ["CALL", "STEP", "Channel", "Task", "call", "get_attr", "render", "work"]

# What the driver asks for: a step, or a method call, whose name and arguments come through the pipe.
STEP, CALL = 1, 2


class Task(NamedTuple):
    """What a worker is to do."""

    env_fns: bytes
    rows: slice
    num_envs: int
    autoreset_mode: AutoresetMode
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]


class Channel(NamedTuple):
    """How a worker and its driver talk: semaphores, a few shared numbers, and a pipe for what is rare.

    The `numbers` are what is asked for, which half of the block to write, and the size of an answer in the
    pipe.
    """

    go: Any
    done: Any
    numbers: Any
    pipe: Any


def work(task: Task, memory: Any, channel: Channel) -> None:
    """Step environments until the driver closes them, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides
    threading.Thread(target=_end_with_driver, daemon=True).start()
    who = f"the worker of environments {task.rows.start} to {task.rows.stop - 1}"
    try:
        worker = _Worker(task, memory)
    except Exception as error:
        channel.pipe.send_bytes(dumps(Failure(picklable(error, who))))
        return
    channel.pipe.send_bytes(dumps((task.observation_space, task.action_space)))
    while not worker.is_closed:
        channel.go.acquire()
        what, half, _ = channel.numbers
        try:
            call = None if what == STEP else channel.pipe.recv_bytes()
        except EOFError:
            return
        try:
            answer = worker.step(half) if call is None else worker.run(half, *pickle.loads(call))
            data = None if answer is None else dumps(answer)
        except Exception as error:
            data = dumps(Failure(picklable(error, who)))
        channel.numbers[2] = 0 if data is None else len(data)
        channel.done.release()  # first, because writing to a full pipe waits for its reader
        if data is not None:
            channel.pipe.send_bytes(data)


def _end_with_driver() -> None:
    """End this process when its driver ends, whatever an environment is doing."""
    driver = parent_process()
    assert driver is not None
    connection.wait([driver.sentinel])
    os._exit(1)


class _Worker:
    """The environments of a worker, run as by `SyncVectorEnv`, but writing into rows of the block."""

    def __init__(self, task: Task, memory: Any) -> None:
        env_fns: list[Callable[[], gym.Env[Any, Any]]] = cloudpickle.loads(task.env_fns)
        self.envs = [make_env(env_fn) for env_fn in env_fns]
        for index, env in enumerate(self.envs, task.rows.start):
            check_spaces(index, (env.observation_space, env.action_space), task[-2:])
        self._mode, self._space = task.autoreset_mode, task.observation_space
        self._actions = batch_space(task.action_space, len(self.envs))
        block = Block.over(memory, task.observation_space, task.action_space, task.num_envs)
        self._block = block.rows(task.rows)
        self._rows = [
            [map_arrays(itemgetter((index, ...)), half) for index in range(len(self.envs))]
            for half in self._block.observations
        ]
        self._last: list[Any] = [None] * len(self.envs)  # the last observation of each environment
        self._is_over = [False] * len(self.envs)
        self.is_closed = False

    def step(self, half: int, actions: Any = None) -> Any:
        """Step the environments; the actions are in the block unless they are given."""
        if actions is None:
            # Copies, for the environments to keep.
            actions = map_arrays(lambda array: array.copy(), self._block.actions)
        # Infos are pickled immediately, because environments may reuse their dicts and arrays.
        block, mode, fits = self._block, self._mode, True
        infos: list[tuple[int, bytes]] = []
        for index, (env, action) in enumerate(zip(self.envs, iterate(self._actions, actions))):
            if self._is_over[index] and mode is not AutoresetMode.SAME_STEP:
                if mode is AutoresetMode.DISABLED:
                    raise UnsupportedError("a step of an environment whose episode is over", "reset it first")
                obs, info = env.reset()
                block.rewards[index], block.terminated[index], block.truncated[index] = 0, False, False
            else:
                obs, reward, terminated, truncated, info = env.step(action)
                block.rewards[index] = reward
                block.terminated[index], block.truncated[index] = terminated, truncated
            self._is_over[index] = is_over = block.terminated[index] or block.truncated[index]
            if is_over and mode is AutoresetMode.SAME_STEP:
                infos.append((index, dumps({"final_obs": obs, "final_info": info})))
                obs, info = env.reset()
            fits = self._show(half, index, obs) and fits
            if info:
                infos.append((index, dumps(info)))
        return self._answer(half, fits, infos)

    def reset(self, half: int, seeds: Sequence[int | None], options: dict[str, Any] | None) -> Any:
        """Reset all environments, or those of a mask in the options."""
        mask = None if options is None else options.pop("reset_mask", None)
        fits, infos = True, []
        for index, env in enumerate(self.envs):
            if mask is None or mask[index]:
                obs, info = env.reset(seed=seeds[index], options=options)
                self._is_over[index] = False
                fits = self._show(half, index, obs) and fits
                if info:
                    infos.append((index, dumps(info)))
        return self._answer(half, fits, infos)

    def _show(self, half: int, index: int, obs: Any) -> bool:
        """Write an observation into its row; return whether it has the row's form."""
        self._last[index] = obs
        return copy_into(self._rows[half][index], obs)

    def _answer(self, half: int, fits: bool, infos: list[tuple[int, bytes]]) -> Any:
        """Return what has to go through the pipe: None if everything is in the block."""
        if fits:
            return (None, infos) if infos else None
        # Numbers, other dtypes, other types: stacked as Gymnasium does, which may raise.
        target = self._block.observations[half]
        empty: Any = create_empty_array(self._space, len(self.envs)) if target is None else target
        obs = concatenate(self._space, self._last, empty)
        return (obs if target is None else None), infos

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

    def set_attr(self, name: str, values: dict[int, Any]) -> None:
        """Set an attribute of some environments, each to its value."""
        for index, value in values.items():
            self.envs[index].set_wrapper_attr(name, value)

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


def get_attr(env: gym.Env[Any, Any], name: str) -> Any:
    """Return an attribute of an environment, without calling it."""
    return env.get_wrapper_attr(name)


def render(env: gym.Env[Any, Any]) -> Any:
    """Return a frame of an environment."""
    return env.render()
