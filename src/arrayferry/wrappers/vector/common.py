"""The names of `gymnasium.wrappers.vector.common`; the statistics come in the framework of the rewards."""

from typing import Any

from gymnasium.wrappers.vector import common as theirs

from arrayferry.wrappers._compute import numpy_inside, restored, with_numpy_mask

__all__ = ["RecordEpisodeStatistics"]


class RecordEpisodeStatistics(theirs.RecordEpisodeStatistics):
    """Gymnasium's `RecordEpisodeStatistics`.

    It counts in NumPy, for which rewards and dones are read from their device once a step. What it adds to
    the info is in the framework of the rewards, on their device.
    """

    def __init__(self, env: Any, buffer_length: int = 100, stats_key: str = "episode") -> None:
        """Wrap a vector environment; the queues hold the last `buffer_length` episodes."""
        super().__init__(env, buffer_length, stats_key)

    def reset(self, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset all environments, or those of a mask, and their statistics."""
        with numpy_inside(self):
            return super().reset(seed=seed, options=with_numpy_mask(options))

    def step(self, actions: Any) -> Any:
        """Take a step, and add the statistics of the episodes that end to its info."""
        with numpy_inside(self) as env:
            *_, info = super().step(actions)
        if self.prev_dones.any():
            key, mask = self._stats_key, f"_{self._stats_key}"
            # The mask is the wrapper's own, and the agent may write to what it gets.
            info[key], info[mask] = restored((info[key], info[mask].copy()), env.result[1])
        return *env.result[:4], info
