"""The names of `gymnasium.wrappers.vector.stateful_observation`, which stay where the arrays are."""

from typing import TYPE_CHECKING, Any

from gymnasium.wrappers.vector import stateful_observation as theirs

from arrayferry.wrappers._context import context_of
from arrayferry.wrappers._statistics import normalized, settle, update
from arrayferry.wrappers.vector._batches import with_numpy_mask

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.vector.stateful_observation import *  # noqa: F403

__all__ = ["NormalizeObservation"]


class NormalizeObservation(theirs.NormalizeObservation):
    """Gymnasium's `NormalizeObservation`, for observations of any framework."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset all environments."""
        return super().reset(seed=seed, options=with_numpy_mask(options))

    def observations(self, observations: Any) -> Any:
        """Normalize observations, and count them in the statistics if `update_running_mean` is True."""
        if (context := context_of(observations)) is None:
            settle(self.obs_rms, None)
            return super().observations(observations)
        if self._update_running_mean:
            update(self.obs_rms, context, observations)
        return normalized(self.obs_rms, context, observations, self.epsilon)
