"""The names of `gymnasium.wrappers.vector.stateful_reward`, for rewards of any framework."""

from typing import Any

from gymnasium.wrappers.vector import stateful_reward as theirs

from arrayferry._boundary.autoreset import mask_of
from arrayferry.wrappers._compute import RewardInNumpy, with_numpy_mask

__all__ = ["NormalizeReward"]


class NormalizeReward(RewardInNumpy, theirs.NormalizeReward):
    """Gymnasium's `NormalizeReward`; a masked reset concerns its rows only."""

    def __init__(self, env: Any, gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        """Wrap a vector environment."""
        theirs.NormalizeReward.__init__(self, env, gamma, epsilon)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset all environments, or those of a mask, and their accumulated rewards."""
        options = with_numpy_mask(options)
        mask = mask_of(options, self.num_envs)
        result = self.env.reset(seed=seed, options=options)
        was_reset = slice(None) if mask is None else mask
        self.accumulated_reward[was_reset] = self._prev_dones[was_reset] = 0
        return result
