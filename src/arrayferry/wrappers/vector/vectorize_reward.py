"""The names of `gymnasium.wrappers.vector.vectorize_reward`, for rewards of any framework."""

from typing import Any

from gymnasium.wrappers.vector import vectorize_reward as theirs
from gymnasium.wrappers.vector.vectorize_reward import TransformReward as TransformReward
from gymnasium.wrappers.vector.vectorize_reward import VectorizeTransformReward as VectorizeTransformReward

from arrayferry.wrappers import transform_reward as single
from arrayferry.wrappers._compute import in_numpy

__all__ = ["ClipReward", "TransformReward", "VectorizeTransformReward"]


class ClipReward(theirs.ClipReward):
    """Gymnasium's `ClipReward`, which does not write into the rewards that it is given."""

    def __init__(self, env: Any, min_reward: Any = None, max_reward: Any = None) -> None:
        """Wrap a vector environment; either bound may be None."""
        bounds = {"min_reward": min_reward, "max_reward": max_reward}
        theirs.VectorizeTransformReward.__init__(self, env, single.ClipReward, **bounds)

    def rewards(self, rewards: Any) -> Any:
        """Return rewards within the bounds."""
        return in_numpy(self._clipped, rewards)

    def _clipped(self, rewards: Any) -> Any:
        clipped: Any = self.wrapper.func(rewards)
        return clipped.astype(rewards.dtype, copy=False)
