"""The names of `gymnasium.wrappers.stateful_reward`; `NormalizeReward` stays in the reward's framework."""

from typing import Any

from gymnasium.core import ActType, ObsType
from gymnasium.wrappers import stateful_reward as theirs

from arrayferry.wrappers._compute.array_context import context_of, to_context
from arrayferry.wrappers._compute.statistics import discounted, scaled, update

__all__ = ["NormalizeReward"]


class NormalizeReward(theirs.NormalizeReward[ObsType, ActType]):
    """Gymnasium's `NormalizeReward`, for rewards of any framework."""

    def step(self, action: Any) -> Any:
        """Take a step, and normalize its reward."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        context = context_of(reward)
        total = discounted(
            context, to_context(context, self.discounted_reward), self.gamma, terminated, reward
        )
        self.discounted_reward = total
        if self._update_running_mean:
            update(self.return_rms, context, total)
        return obs, scaled(self.return_rms, context, reward, self.epsilon), terminated, truncated, info
