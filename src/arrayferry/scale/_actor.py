"""What runs in a Ray actor: some of the environments, run as a worker process runs them."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from gymnasium.spaces import Box

from arrayferry.scale._block import Block
from arrayferry.scale._driver import Description
from arrayferry.scale._pickling import Failure, dumps, picklable
from arrayferry.scale._worker import Runner, Task
from arrayferry.scale.process import CONTEXT, ProcessVectorEnv

__all__ = ["Actor", "ActorTask", "unpacked"]

# Ray copies anything larger into its object store: no need to copy it into a pickle first.
_LARGE = 64 * 1024


class ActorTask(NamedTuple):
    """What an actor is to do: a worker's task, in as many processes as it has cores."""

    task: Task
    cores: int
    step_timeout: float
    max_faults: int


class Actor:
    """Some of the environments: in this process, or in one per core if there are several cores.

    An answer is made of the observations, the rewards and flags, and the info of each environment by itself:
    only the driver, which has all of them, stacks infos.
    """

    def __init__(self, task: ActorTask) -> None:
        self._task = task

    def make(self) -> Any:
        """Make the environments, and describe them."""
        try:
            rows = self._task.task.rows
            is_single = self._task.cores == 1 or rows.stop - rows.start == 1
            self._envs: Any = _Single(self._task.task) if is_single else _Several(self._task)
            return _packed(None, dumps(self._envs.describe()))
        except Exception as error:
            return self._failed(error)

    def run(self, request: bytes) -> Any:
        """Call a method of the environments."""
        try:
            name, arguments, options = pickle.loads(request)
            answer = self._envs.run(0, name, arguments, options)
            return _packed(*answer) if name in ("step", "reset") else _packed(None, dumps(answer))
        except Exception as error:  # including one about what cannot be pickled
            return self._failed(error)

    def _failed(self, error: Exception) -> Any:
        rows = self._task.task.rows
        who = f"the actor of environments {rows.start} to {rows.stop - 1}"
        return _packed(None, dumps(Failure(picklable(error, who))))


class _Single(Runner):
    """Environments in this process."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        block = Block.made_by(np.zeros, *self._spaces[0], len(self.envs))
        if isinstance(self._space, Box) and block.observations[0][0].nbytes >= _LARGE:
            block = block._replace(observations=(None, None))  # to stack them here would be one more copy
        self.write_into(block)

    def _answer(self, half: int, fits: bool, infos: list[tuple[int, bytes]]) -> Any:
        block = self.block
        obs = block.observations[half]
        if obs is None and all(map(self._is_plain, self._last)):
            obs = self._last  # for the driver to stack
        elif not fits:
            stacked, _ = super()._answer(half, fits, infos)
            obs = stacked if obs is None else obs
        return obs, (block.rewards, block.terminated, block.truncated), infos

    def _is_plain(self, obs: Any) -> bool:
        """Return whether the driver can stack a large observation as it is."""
        space = self._space
        if not isinstance(space, Box) or type(obs) is not np.ndarray or not obs.flags.c_contiguous:
            return False
        return bool(obs.dtype == space.dtype) and obs.shape == space.shape


class _Several(ProcessVectorEnv):
    """Environments in processes of their own, whose infos are not stacked."""

    def __init__(self, task: ActorTask) -> None:
        (env_fns, _, _, mode), cores, step_timeout, max_faults = task
        # A worker that hangs is replaced in here, before the driver gives up on all of them.
        envs = cloudpickle.loads(env_fns)
        super().__init__(envs, cores, CONTEXT, mode, 0.9 * step_timeout, max_faults)

    def describe(self) -> Description:
        """Describe the environments, which all have the same spaces."""
        return Description(*self._single_spaces, self.metadata, self.render_mode)

    def run(self, half: int, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a method as a `Runner` does."""
        if name == "step":
            obs, *numbers, infos = self.step(*arguments)
            return obs, numbers, infos.get("", [])
        if name == "reset":
            seeds, reset_options = arguments
            obs, infos = self.reset(seed=seeds, options=reset_options)
            return obs, None, infos.get("", [])
        if name == "set_attr":
            attribute, indices, values = arguments
            name, arguments = "set_attr_of", (indices, attribute, values)
        return (getattr(self, name)(*arguments, **options),)

    def _add_info(
        self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int
    ) -> dict[str, Any]:
        """Leave it as it is, in a list; its faults come from here, those of the actor from the driver."""
        vector_infos.setdefault("", []).append((env_num, dumps(env_info)))
        return vector_infos


def _packed(obs: Any, *rest: Any) -> Any:
    """Return an answer as bytes; large arrays of observations are kept apart from them."""
    large: list[Any] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        memory = np.frombuffer(buffer.raw(), np.uint8)
        if memory.nbytes < _LARGE:
            return True
        large.append(memory)
        return False

    data: bytes = cloudpickle.dumps((obs, *rest), protocol=5, buffer_callback=is_small)
    return [data, *large] if large else data


def unpacked(message: Any) -> tuple[Any, ...]:
    """Return the observations, which may be read-only, and the rest of an answer."""
    data, *large = [message] if isinstance(message, bytes) else message
    answer: tuple[Any, ...] = pickle.loads(data, buffers=large)
    return answer
