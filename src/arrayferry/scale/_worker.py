"""What runs in a worker process: some of the environments, as a `SyncVectorEnv` of their own."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from arrayferry._core.messages import note_on
from arrayferry.scale._block import Block, copy_into, map_arrays

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium import spaces

__all__ = ["CALL", "STEP", "Channel", "Failure", "Task", "work"]

# What the driver asks for; every other request is a method's name and arguments, through the pipe.
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

    `numbers` are: what is asked for, which half of the block to write, and whether an answer is in the pipe.
    """

    go: Any
    done: Any
    numbers: Any
    pipe: Any


class Failure(NamedTuple):
    """An exception of an environment, on its way to the driver."""

    error: BaseException


def work(task: Task, memory: Any, channel: Channel) -> None:
    """Step environments until the driver says that it is enough, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides
    try:
        env_fns: list[Callable[[], gym.Env[Any, Any]]] = cloudpickle.loads(task.env_fns)
        envs = SyncVectorEnv(env_fns, copy=False, autoreset_mode=task.autoreset_mode)
    except Exception as error:
        channel.pipe.send(Failure(_portable(error)))
        return
    channel.pipe.send((envs.single_observation_space, envs.single_action_space))
    worker = _Worker(task, envs, memory, channel.numbers)
    driver = parent_process()
    while True:
        while not channel.go.acquire(timeout=1):
            if driver is not None and not driver.is_alive():
                return
        try:
            answer = worker.step() if channel.numbers[0] == STEP else worker.call(*channel.pipe.recv())
        except EOFError:
            return
        except Exception as error:
            answer = Failure(_portable(error))
        channel.numbers[2] = answer is not None
        channel.done.release()  # first, because a pipe that is full waits for its reader
        if answer is not None:
            channel.pipe.send(answer)
        if channel.numbers[0] == CALL and answer == "closed":
            return


class _Worker:
    """The environments of a worker, and their rows of the block."""

    def __init__(self, task: Task, envs: SyncVectorEnv, memory: Any, numbers: Any) -> None:
        block = Block.over(memory, task.observation_space, task.action_space, task.num_envs)
        self.envs, self.block, self.numbers = envs, block.rows(task.rows), numbers

    def step(self, actions: Any = None) -> Any:
        """Step; the actions are in the block, if they are not given."""
        if actions is None:
            # Copies, for the environments to keep.
            actions = map_arrays(lambda array: array.copy(), self.block.actions)
        obs, rewards, terminated, truncated, infos = self.envs.step(actions)
        block = self.block
        block.rewards[:], block.terminated[:], block.truncated[:] = rewards, terminated, truncated
        return self._answer(obs, infos)

    def reset(self, seed: Any, options: Any) -> Any:
        """Reset all environments, or those of a mask in the options."""
        obs, infos = self.envs.reset(seed=seed, options=options)
        return self._answer(obs, infos)

    def _answer(self, obs: Any, infos: dict[str, Any]) -> Any:
        target = self.block.observations[self.numbers[1]]
        is_in_block = target is not None and copy_into(target, obs)
        return None if is_in_block and not infos else (None if is_in_block else obs, infos)

    def call(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call a method of this worker or, failing that, of its vector environment."""
        if name in ("step", "reset"):
            return getattr(self, name)(*arguments)
        found = getattr(self.envs, name)(*arguments, **options)
        return "closed" if name == "close" else (found,)


def _portable(error: Exception) -> BaseException:
    """Return an exception that can be pickled, with the worker's traceback as a note."""
    note_on(error, "in a worker:\n" + "".join(traceback.format_exception(error)))
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error
