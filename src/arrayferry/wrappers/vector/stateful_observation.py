"""The names of `gymnasium.wrappers.vector.stateful_observation`, which stay where the arrays are."""

from typing import Any

from gymnasium.wrappers.vector import stateful_observation as theirs

from arrayferry.wrappers._compute.batches import with_numpy_mask
from arrayferry.wrappers._compute.statistics import normalize

__all__ = ["NormalizeObservation"]


class NormalizeObservation(theirs.NormalizeObservation):
    """Gymnasium's `NormalizeObservation`, for observations of any framework."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset all environments."""
        return super().reset(seed=seed, options=with_numpy_mask(options))

    def observations(self, observations: Any) -> Any:
        """Normalize observations, and count them in the statistics if `update_running_mean` is True."""
        normalized = normalize(self, observations, is_batch=True)
        return super().observations(observations) if normalized is None else normalized
