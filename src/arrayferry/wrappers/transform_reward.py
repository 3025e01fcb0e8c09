"""The names of `gymnasium.wrappers.transform_reward`, for rewards of any framework."""

from typing import Any

from gymnasium.core import ActType, ObsType
from gymnasium.wrappers import transform_reward as theirs
from gymnasium.wrappers.transform_reward import TransformReward as TransformReward

from arrayferry.wrappers._compute import Rebuilt, as_numpy, restored

__all__ = ["ClipReward", "TransformReward"]


class ClipReward(Rebuilt, theirs.ClipReward[ObsType, ActType]):
    """Gymnasium's `ClipReward`."""

    def reward(self, reward: Any) -> Any:
        """Return a reward within the bounds."""
        return restored(super().reward(as_numpy(reward)), reward, keep_float=True)
