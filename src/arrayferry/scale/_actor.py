"""What runs in a Ray actor: some of the environments, run as a worker process runs them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from time import perf_counter
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector.utils import iterate

from arrayferry.scale._block import Block
from arrayferry.scale._driver import Description
from arrayferry.scale._pickling import Failure, dumps, picklable
from arrayferry.scale._worker import Answers, Runner, Task
from arrayferry.scale.process import ProcessVectorEnv

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

    An answer is what a `Runner` answers, the seconds since the last one, and the rewards and flags of a step:
    only the driver, which has all environments, stacks them and their infos.
    """

    def __init__(self, task: ActorTask) -> None:
        self._task, self._idle_since = task, perf_counter()

    def make(self) -> Any:
        """Make the environments, and describe them."""
        try:
            rows = self._task.task.rows
            is_single = self._task.cores == 1 or rows.stop - rows.start == 1
            self._envs: Any = _Single(self._task.task) if is_single else _Several(self._task)
            answer = _packed(dumps(self._envs.describe()))
        except Exception as error:
            answer = self._failed(error)
        self._idle_since = perf_counter()
        return answer

    def run(self, request: bytes) -> Any:
        """Call a method of the environments."""
        idle = perf_counter() - self._idle_since
        try:
            name, arguments, options = pickle.loads(request)
            answer = self._envs.run(name, arguments, options)
            if name == "step":
                answer = _packed(answer, idle, *self._envs.numbers(arguments[0]))
            else:
                answer = _packed(answer if name == "reset" else dumps(answer), idle)
        except Exception as error:  # including one about what cannot be pickled
            answer = self._failed(error)
        self._idle_since = perf_counter()
        return answer

    def _failed(self, error: Exception) -> Any:
        rows = self._task.task.rows
        who = f"the actor of environments {rows.start} to {rows.stop - 1}"
        return _packed(dumps(Failure(picklable(error, who))), 0.0)


class _Single(Runner):
    """Environments in this process, whose observations all go to the driver."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.write_into(Block.made_by(np.zeros, None, self.spaces[1], task.rows.stop))

    def numbers(self, rows: list[int]) -> tuple[Any, ...]:
        """Return the rewards and flags of the last step."""
        places, block = np.add(rows, self.task.rows.start), self.block
        return block.rewards[places], block.terminated[places], block.truncated[places]

    def _show(self, row: int, obs: Any) -> Any:
        """Return an observation in the form that its space has; a large array without a copy."""
        space = self.spaces[0]
        is_plain = isinstance(space, Box) and type(obs) is np.ndarray and obs.flags.c_contiguous
        if is_plain and obs.dtype == space.dtype and obs.shape == space.shape:
            return obs if obs.nbytes >= _LARGE else obs.copy()
        return super()._show(row, obs)


class _Several(ProcessVectorEnv):
    """Environments in processes of their own, whose infos are not stacked."""

    def __init__(self, task: ActorTask) -> None:
        (env_fns, _, _, mode), cores, step_timeout, max_faults = task
        # A worker that hangs is replaced in here, before the driver gives up on all of them.
        envs = cloudpickle.loads(env_fns)
        options: Any = {"step_timeout": 0.9 * step_timeout, "max_faults": max_faults}
        super().__init__(envs, workers=cores, autoreset_mode=mode, **options)

    def describe(self) -> Description:
        """Describe the environments, which all have the same spaces."""
        return Description(*self._single_spaces, self.metadata, self.render_mode)

    def numbers(self, rows: list[int]) -> list[Any]:
        """Return the rewards and flags of the last step."""
        return self._numbers

    def run(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a method as a `Runner` does."""
        if name == "step":
            obs, *self._numbers, infos = self.step(arguments[1])
            return self._answers(range(self.num_envs), obs, infos)
        if name in ("reset", "start"):
            rows, seeds, reset_options = arguments
            mask = np.isin(np.arange(self.num_envs), rows)
            all_seeds = [None] * self.num_envs
            for row, seed in zip(rows, seeds):
                all_seeds[row] = seed
            is_masked = not mask.all()
            if is_masked:
                reset_options = {**(reset_options or {}), "reset_mask": mask}
            obs, infos = self.reset(seed=all_seeds, options=reset_options)
            return self._answers(rows, obs, infos) if name == "reset" else (None,)
        if name == "set_attr":
            attribute, indices, values = arguments
            name, arguments = "set_attr_of", (indices, attribute, values)
        return (getattr(self, name)(*arguments, **options),)

    def _answers(self, rows: Iterable[int], obs: Any, infos: dict[str, Any]) -> Answers:
        each = dict(enumerate(iterate(self.observation_space, obs)))
        answers: Answers = {row: (each[row], []) for row in rows}
        for row, info in infos.get("", []):
            answers[row][1].append(info)
        return answers

    def _add_info(
        self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int
    ) -> dict[str, Any]:
        """Leave it as it is, in a list; its faults come from here, those of the actor from the driver."""
        vector_infos.setdefault("", []).append((env_num, dumps(env_info)))
        return vector_infos


def _packed(*answer: Any) -> Any:
    """Return an answer as bytes; large arrays of observations are kept apart from them."""
    large: list[Any] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        memory = np.frombuffer(buffer.raw(), np.uint8)
        if memory.nbytes < _LARGE:
            return True
        large.append(memory)
        return False

    data: bytes = cloudpickle.dumps(answer, protocol=5, buffer_callback=is_small)
    return [data, *large] if large else data


def unpacked(message: Any) -> tuple[Any, ...]:
    """Return an answer, whose large arrays may be read-only."""
    data, *large = [message] if isinstance(message, bytes) else message
    answer: tuple[Any, ...] = pickle.loads(data, buffers=large)
    return answer
