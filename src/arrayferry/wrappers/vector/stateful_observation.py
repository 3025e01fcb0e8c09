"""The names of `gymnasium.wrappers.vector.stateful_observation`, for observations of any framework."""

from typing import Any

from gymnasium.wrappers.vector import stateful_observation as theirs

from arrayferry.wrappers._compute import in_numpy, with_numpy_mask

__all__ = ["NormalizeObservation"]


class NormalizeObservation(theirs.NormalizeObservation):
    """Gymnasium's `NormalizeObservation`."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset all environments."""
        return super().reset(seed=seed, options=with_numpy_mask(options))

    def observations(self, observations: Any) -> Any:
        """Normalize observations, and count them in the statistics if `update_running_mean` is True."""
        return in_numpy(super().observations, observations)
