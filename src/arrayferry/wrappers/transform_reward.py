"""The names of `gymnasium.wrappers.transform_reward`; `ClipReward` stays in the reward's framework."""

from typing import Any

from gymnasium.core import ActType, ObsType
from gymnasium.wrappers import transform_reward as theirs
from gymnasium.wrappers.transform_reward import TransformReward as TransformReward

from arrayferry.wrappers._compute.functions import Clip

__all__ = ["ClipReward", "TransformReward"]


class ClipReward(theirs.ClipReward[ObsType, ActType]):
    """Gymnasium's `ClipReward`, for rewards of any framework."""

    def __init__(self, env: Any, min_reward: Any = None, max_reward: Any = None) -> None:
        """Wrap an environment; either bound may be None."""
        super().__init__(env, min_reward, max_reward)
        self.func = Clip(min_reward, max_reward)
