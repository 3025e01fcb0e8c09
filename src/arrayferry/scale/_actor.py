"""What runs in a Ray actor: some of the environments, run as a worker process runs them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

import cloudpickle
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space, iterate

from arrayferry.scale._block import Block, copy_into
from arrayferry.scale._driver import pack
from arrayferry.scale._pickling import dumps, failure_of
from arrayferry.scale._worker import Description, Runner, Task
from arrayferry.scale.process import ProcessVectorEnv

__all__ = ["Actor"]

# Ray copies anything larger into its object store: no need to copy it into a pickle first.
_LARGE = 64 * 1024


class Actor:
    """Some of the environments: in this process, or in one per core if there are several cores.

    An answer has what a `Runner` answers, the seconds since the last one, and the rewards and flags: only the
    driver, which has all environments, stacks them and their infos.
    """

    def __init__(self, task: Task, cores: int, step_timeout: float, max_faults: int) -> None:
        self._task, self._settings, self._idle_since = task, (cores, step_timeout, max_faults), perf_counter()

    def make(self) -> Any:
        """Make the environments, and describe them."""
        try:
            is_single = self._settings[0] == 1 or len(self._task.rows) == 1
            self._runner = _Single(self._task) if is_single else _Several(self._task, *self._settings)
            answer = _packed(self._runner.describe())
        except Exception as error:
            answer = _packed(failure_of(error, self._task.rows))
        self._idle_since = perf_counter()
        return answer

    def run(self, rows: Sequence[int], request: bytes | None, actions: Any = None) -> Any:
        """Answer a request: a method call, or a step with these actions."""
        idle = perf_counter() - self._idle_since
        rests, *numbers = self._runner.run(rows, request, actions)
        try:
            answer = _packed((rests, idle, numbers))
        except Exception as error:  # about what cannot be pickled
            answer = _packed((dict.fromkeys(rows, failure_of(error, self._task.rows)), idle, numbers))
        self._idle_since = perf_counter()
        return answer


class _Single(Runner):
    """Environments in this process, whose observations all go to the driver."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.write_into(Block.made_by(np.zeros, None, self.spaces[1], task.rows.stop))

    def run(self, rows: Sequence[int], request: bytes | None, actions: Any) -> tuple[Any, ...]:
        """Answer a request: return the rest of each row, and rewards and flags."""
        block = self.block
        if request is None:
            copy_into(block.actions, actions, rows)
        rests = dict(self.answer(rows, request))
        return rests, block.rewards[rows], block.terminated[rows], block.truncated[rows]

    def _show(self, row: int, obs: Any) -> Any:
        """Return an observation in the form that its space has; a large array without a copy."""
        space = self.spaces[0]
        is_plain = isinstance(space, Box) and type(obs) is np.ndarray and obs.flags.c_contiguous
        if is_plain and obs.dtype == space.dtype and obs.shape == space.shape:
            return obs if obs.nbytes >= _LARGE else obs.copy()
        return super()._show(row, obs)


class _Several(ProcessVectorEnv):
    """Environments in processes of their own; their infos go to the driver one by one."""

    def __init__(self, task: Task, cores: int, step_timeout: float, max_faults: int) -> None:
        self._task, mode = task, task.autoreset_mode
        # A worker that hangs is replaced in here, before the driver gives up on all of them.
        options: Any = {"step_timeout": 0.9 * step_timeout, "max_faults": max_faults}
        super().__init__(cloudpickle.loads(task.env_fns), workers=cores, autoreset_mode=mode, **options)
        for worker in self._workers:
            calls = [(pickle.loads(packed)[1], packed) for packed in worker.task.attributes]
            worker.attributes = {(name, tuple(values)): packed for (name, values), packed in calls}
        self._seeds = [task.seeds.get(row) for row in task.rows]
        self._needs_reset = not task.seeds  # the first step of a successor resets

    def _tasks(self, env_fns: Sequence[Any], workers: int) -> list[Task]:
        """Return what each worker is to do, which has the seeds and the attributes of a successor, too."""
        tasks, start, seeds = super()._tasks(env_fns, workers), self._task.rows.start, self._task.seeds
        set_before = [pickle.loads(packed)[1] for packed in self._task.attributes]
        for place, task in enumerate(tasks):
            own = [row for row in task.rows if row + start in seeds]
            parts = [
                (name, {row: values[row + start] for row in task.rows if row + start in values})
                for name, values in set_before
            ]
            tasks[place] = task._replace(
                seeds={row: seeds[row + start] for row in own},
                attributes=[pack("set_attr", name, values) for name, values in parts if values],
            )
        return tasks

    def describe(self) -> Description:
        """Describe the environments, which all have the same spaces."""
        return Description(*self._single_spaces, self.metadata, self.render_mode)

    def run(self, rows: Sequence[int], request: bytes | None, actions: Any) -> tuple[Any, ...]:
        """Answer a request: return the rest of each row, and rewards and flags."""
        block, own = self._block, self._own(rows)
        answering = rows or self._task.rows[:1]  # to close asks no row
        try:
            rests = dict(zip(answering, self._answer(own, request, actions), strict=True))
        except Exception as error:
            rests = dict.fromkeys(answering, failure_of(error, self._task.rows))
        return rests, block.rewards[own], block.terminated[own], block.truncated[own]

    def _own(self, rows: Iterable[int]) -> list[int]:
        """Return how these environments count some rows of the driver."""
        return [row - self._task.rows.start for row in rows]

    def _answer(self, rows: Sequence[int], request: bytes | None, actions: Any) -> Iterable[Any]:
        if request is None:
            self._step(rows, actions, None)
            return self._rests(rows)
        name, arguments, options = pickle.loads(request)
        if name == "close":
            self.close()
            return [(None,)]
        first, *others = arguments
        if name == "step":
            self._step(rows, None, dict(zip(self._own(first), first.values())))
            return self._rests(rows)
        if name == "reset":
            seeds: list[int | None] = [None] * self.num_envs
            for row, seed in zip(self._own(first), first.values()):
                seeds[row] = seed
            (reset_options,) = others
            if len(rows) < self.num_envs:
                mask = np.isin(self._all, rows)
                reset_options = {**(reset_options or {}), "reset_mask": mask}
            self.reset(seed=seeds, options=reset_options)
            return self._rests(rows)
        if name == "run_on":
            return [(self.run_on(self._own(first), *others, **options),)]
        (values,) = others
        self.set_attr_of(self._own(values), first, [*values.values()])
        return [(None,)]

    def _step(self, rows: Sequence[int], actions: Any, by_row: Mapping[int, Any] | None) -> None:
        with self._using_workers():
            self._check_reset()
            self._check_rows(rows)
            if by_row is None and not copy_into(self._block.actions, actions, rows):
                by_row = self._by_row(rows, actions)
            self._ask_step(rows, by_row)
            self._wait()
            self._ready.clear()
            self._under_way.clear()
            self._needs_reset = False

    def _rests(self, rows: Sequence[int]) -> Iterable[Any]:
        """Return the observation and the infos of each row."""
        each = iterate(batch_space(self.single_observation_space, len(rows)), self._observations(rows))
        for row, obs in zip(rows, each):
            infos = self._infos.get(row, ())
            yield obs, [info if isinstance(info, bytes) else dumps(info) for info in infos]

    def _stacked_infos(self, places: Iterable[tuple[int, int]], size: int) -> dict[str, Any]:
        """Stack none: only the driver has the infos of all rows."""
        return {}


def _packed(answer: Any) -> list[Any]:
    """Return an answer as bytes; large arrays are kept apart from them."""
    large: list[Any] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        memory = np.frombuffer(buffer.raw(), np.uint8)
        if memory.nbytes < _LARGE:
            return True
        large.append(memory)
        return False

    data: bytes = cloudpickle.dumps(answer, protocol=5, buffer_callback=is_small)
    return [data, *large]
