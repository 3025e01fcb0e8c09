"""The names of `gymnasium.wrappers.stateful_reward`, for rewards of any framework."""

from gymnasium.core import ActType, ObsType
from gymnasium.wrappers import stateful_reward as theirs

from arrayferry.wrappers._compute import RewardInNumpy

__all__ = ["NormalizeReward"]


class NormalizeReward(RewardInNumpy, theirs.NormalizeReward[ObsType, ActType]):
    """Gymnasium's `NormalizeReward`."""
