"""What runs in a Ray actor: some of the environments, run as a worker process runs them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import cloudpickle
import numpy as np
from gymnasium.spaces import Box

from arrayferry.scale._block import Block, copy_into
from arrayferry.scale._pickling import failure_of
from arrayferry.scale._worker import Runner, Task

__all__ = ["Actor"]

# Ray copies anything larger into its object store: no need to copy it into a pickle first.
_LARGE = 64 * 1024


class Actor:
    """Some of the environments.

    An answer has what a `Runner` answers, the seconds since the last one, and the rewards and flags: only the
    driver, which has all environments, stacks them and their infos.
    """

    def __init__(self, task: Task) -> None:
        self._task, self._idle_since = task, perf_counter()

    def make(self) -> Any:
        """Make the environments, and describe them."""
        try:
            self._runner = _Runner(self._task)
            answer = _packed(self._runner.describe())
        except Exception as error:
            answer = _packed(failure_of(error, self._task.rows))
        self._idle_since = perf_counter()
        return answer

    def run(self, rows: Sequence[int], request: bytes | None, actions: Any = None) -> Any:
        """Answer a request: a method call, or a step with these actions."""
        idle, block = perf_counter() - self._idle_since, self._runner.block
        if request is None:
            copy_into(block.actions, actions, rows)
        rests = dict(self._runner.answer(rows, request))
        numbers = block.rewards[rows], block.terminated[rows], block.truncated[rows]
        try:
            answer = _packed((rests, idle, numbers))
        except Exception as error:  # about what cannot be pickled
            answer = _packed((dict.fromkeys(rows, failure_of(error, self._task.rows)), idle, numbers))
        self._idle_since = perf_counter()
        return answer


class _Runner(Runner):
    """Environments whose observations all go to the driver."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.write_into(Block.made_by(np.zeros, None, self.spaces[1], task.rows.stop))

    def _show(self, row: int, obs: Any) -> Any:
        """Return an observation in the form that its space has; a large array without a copy."""
        space = self.spaces[0]
        is_plain = isinstance(space, Box) and type(obs) is np.ndarray and obs.flags.c_contiguous
        if is_plain and obs.dtype == space.dtype and obs.shape == space.shape:
            return obs if obs.nbytes >= _LARGE else obs.copy()
        return super()._show(row, obs)


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
