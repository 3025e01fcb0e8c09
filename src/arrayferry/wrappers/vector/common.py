"""The names of `gymnasium.wrappers.vector.common`; the statistics come in the framework of the rewards."""

import time
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import common as theirs

from arrayferry._boundary.autoreset import autoreset_mode_of
from arrayferry.wrappers._compute.array_context import ArrayContext, context_of, to_context
from arrayferry.wrappers._compute.batches import reset_rows

__all__ = ["RecordEpisodeStatistics"]


class RecordEpisodeStatistics(theirs.RecordEpisodeStatistics):
    """Gymnasium's `RecordEpisodeStatistics`, for rewards of any framework.

    It counts in NumPy, for which rewards and dones are read from their device once a step. What it adds to
    the info is in the framework of the rewards, on their device.
    """

    def __init__(self, env: Any, buffer_length: int = 100, stats_key: str = "episode") -> None:
        """Wrap a vector environment; the queues hold the last `buffer_length` episodes."""
        super().__init__(env, buffer_length, stats_key)
        self._is_same_step = autoreset_mode_of(env) is AutoresetMode.SAME_STEP

    def reset(self, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset all environments, or those of a mask, and their statistics."""
        result, was_reset = reset_rows(self.env, seed, options)
        self._restart(was_reset)
        self.prev_dones = self.prev_dones & ~was_reset
        return result

    def step(self, actions: Any) -> Any:
        """Take a step, and add the statistics of the episodes that end to its info."""
        result = self.env.step(actions)
        _, rewards, terminations, truncations, infos = result
        assert isinstance(infos, dict), (
            f"RecordEpisodeStatistics requires infos that are a dict: {type(infos)}"
        )
        context = context_of(rewards)
        rewards, terminations, truncations = to_context(None, (rewards, terminations, truncations))
        self.episode_returns += rewards
        self.episode_lengths += 1
        if not self._is_same_step:  # for these, the step was a reset
            self._restart(self.prev_dones)
        self.prev_dones = np.logical_or(terminations, truncations)
        if self.prev_dones.any():
            self._record(context, infos)
            if self._is_same_step:
                self._restart(self.prev_dones)
        return result

    def _restart(self, rows: np.ndarray[Any, Any]) -> None:
        """Restart the statistics of some environments."""
        self.episode_returns[rows] = 0
        self.episode_lengths[rows] = 0
        self.episode_start_times[rows] = time.perf_counter()

    def _record(self, context: ArrayContext | None, infos: dict[str, Any]) -> None:
        """Write the statistics of the episodes that ended."""
        key, mask, ended = self._stats_key, f"_{self._stats_key}", self.prev_dones
        if key in infos or mask in infos:
            raise ValueError(f"the info has the key {key!r} already: {list(infos)}")
        times = np.round(time.perf_counter() - self.episode_start_times, 6)
        statistics = {"r": self.episode_returns, "l": self.episode_lengths, "t": times}
        rows = {name: np.where(ended, values, np.zeros_like(values)) for name, values in statistics.items()}
        infos[key] = to_context(context, rows)
        infos[mask] = to_context(context, ended.copy())  # which the agent may write to
        self.episode_count += int(np.sum(ended))
        self.time_queue.extend(times[ended])
        self.return_queue.extend(self.episode_returns[ended])
        self.length_queue.extend(self.episode_lengths[ended])
