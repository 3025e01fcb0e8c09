"""The names of `gymnasium.wrappers.vector.vectorize_reward`; `ClipReward` stays where the rewards are."""

from typing import Any

from gymnasium.wrappers.vector import vectorize_reward as theirs
from gymnasium.wrappers.vector.vectorize_reward import TransformReward as TransformReward
from gymnasium.wrappers.vector.vectorize_reward import VectorizeTransformReward as VectorizeTransformReward

from arrayferry.wrappers import transform_reward as single
from arrayferry.wrappers._compute.array_context import context_of

__all__ = ["ClipReward", "TransformReward", "VectorizeTransformReward"]


class ClipReward(theirs.ClipReward):
    """Gymnasium's `ClipReward`, for rewards of any framework."""

    def __init__(self, env: Any, min_reward: Any = None, max_reward: Any = None) -> None:
        """Wrap a vector environment; either bound may be None."""
        bounds = {"min_reward": min_reward, "max_reward": max_reward}
        theirs.VectorizeTransformReward.__init__(self, env, single.ClipReward, **bounds)

    def rewards(self, rewards: Any) -> Any:
        """Return rewards within the bounds."""
        clipped: Any = self.wrapper.func(rewards)
        # In their own dtype, as in Gymnasium, but not in their own memory.
        return clipped if context_of(rewards) is not None else clipped.astype(rewards.dtype, copy=False)
