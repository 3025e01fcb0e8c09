"""The names of `gymnasium.wrappers.vector.common`; the statistics stay in the framework of the rewards."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import common as theirs

from arrayferry._boundary.autoreset import autoreset_mode_of
from arrayferry.wrappers._compute.array_context import ArrayContext, context_of, namespace, to_context
from arrayferry.wrappers._compute.batches import reset_rows

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.vector.common import *  # noqa: F403

__all__ = ["RecordEpisodeStatistics"]

_ON_DEVICE = "episode_returns", "episode_lengths", "prev_dones"


class RecordEpisodeStatistics(theirs.RecordEpisodeStatistics):
    """Gymnasium's `RecordEpisodeStatistics`, for rewards of any framework.

    Returns and lengths stay on the device. The queues, and the times when the episodes began, are in NumPy.
    """

    def __init__(self, env: Any, buffer_length: int = 100, stats_key: str = "episode") -> None:
        """Wrap a vector environment; the queues hold the last `buffer_length` episodes."""
        super().__init__(env, buffer_length, stats_key)
        self._is_same_step = autoreset_mode_of(env) is AutoresetMode.SAME_STEP
        self._ended = self.prev_dones  # on the host

    def reset(self, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset all environments, or those of a mask, and their statistics."""
        result, was_reset = reset_rows(self.env, seed, options)
        context = context_of(result[0])
        self._move(context)
        self._restart(context, was_reset)
        self._ended = self._ended & ~was_reset
        self.prev_dones = to_context(context, self._ended)
        return result

    def step(self, actions: Any) -> Any:
        """Take a step, and add the statistics of the episodes that end to its info."""
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        assert isinstance(infos, dict), (
            f"RecordEpisodeStatistics requires infos that are a dict: {type(infos)}"
        )
        if (context := context_of(rewards)) is not context_of(self.episode_returns):
            self._move(context)
        self.episode_returns = self.episode_returns + (rewards if context is None else context.wide(rewards))
        self.episode_lengths = self.episode_lengths + 1
        if not self._is_same_step and self._ended.any():  # for these, the step was a reset
            self._restart(context, self._ended)
        self.prev_dones = namespace(context).logical_or(terminations, truncations)
        self._ended = to_context(None, self.prev_dones)
        if self._ended.any():
            self._record(context, infos)
            if self._is_same_step:
                self._restart(context, self._ended)
        return observations, rewards, terminations, truncations, infos

    def _move(self, context: ArrayContext | None) -> None:
        for name in _ON_DEVICE:
            setattr(self, name, to_context(context, getattr(self, name)))

    def _restart(self, context: ArrayContext | None, rows: np.ndarray[Any, Any]) -> None:
        """Restart the statistics of some environments."""
        xp, mask = namespace(context), to_context(context, rows)
        for name in _ON_DEVICE[:2]:
            sums = getattr(self, name)
            setattr(self, name, xp.where(mask, xp.zeros_like(sums), sums))
        self.episode_start_times[rows] = time.perf_counter()

    def _record(self, context: ArrayContext | None, infos: dict[str, Any]) -> None:
        """Write the statistics of the episodes that ended."""
        key, mask = self._stats_key, f"_{self._stats_key}"
        if key in infos or mask in infos:
            raise ValueError(f"the info has the key {key!r} already: {list(infos)}")
        xp, ended = namespace(context), self._ended
        times = np.round(time.perf_counter() - self.episode_start_times, 6)
        statistics = {"r": self.episode_returns, "l": self.episode_lengths, "t": to_context(context, times)}
        infos[key] = {
            name: xp.where(self.prev_dones, sums, xp.zeros_like(sums)) for name, sums in statistics.items()
        }
        infos[mask] = self.prev_dones | self.prev_dones  # a copy, which the agent may write to
        self.episode_count += int(np.sum(ended))
        self.time_queue.extend(times[ended])
        self.return_queue.extend(to_context(None, self.episode_returns)[ended])
        self.length_queue.extend(to_context(None, self.episode_lengths)[ended])
