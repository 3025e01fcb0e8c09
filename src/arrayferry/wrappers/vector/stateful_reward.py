"""The names of `gymnasium.wrappers.vector.stateful_reward`, which stay where the arrays are."""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import stateful_reward as theirs

from arrayferry._boundary.autoreset import autoreset_mode_of
from arrayferry.wrappers._compute.array_context import context_of, namespace, to_context
from arrayferry.wrappers._compute.batches import reset_rows
from arrayferry.wrappers._compute.statistics import discounted, scaled, update

__all__ = ["NormalizeReward"]


class NormalizeReward(theirs.NormalizeReward):
    """Gymnasium's `NormalizeReward`, for rewards of any framework."""

    def __init__(self, env: Any, gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        """Wrap a vector environment."""
        super().__init__(env, gamma, epsilon)
        self._is_same_step = autoreset_mode_of(env) is AutoresetMode.SAME_STEP

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset all environments, or those of a mask, and their accumulated rewards."""
        result, was_reset = reset_rows(self.env, seed, options)
        for name in ("accumulated_reward", "_prev_dones"):
            before = to_context(None, getattr(self, name))
            setattr(self, name, np.where(was_reset, np.zeros_like(before), before))
        return result

    def step(self, actions: Any) -> Any:
        """Take a step, and normalize its rewards."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        context = context_of(reward)
        xp, before = namespace(context), to_context(context, self.accumulated_reward)
        total = discounted(context, before, self.gamma, terminated, reward)
        active = None
        if not self._is_same_step:  # where an episode ended in the last step, this one was a reset
            active = to_context(context, self._prev_dones) == 0
            total = xp.where(active, total, before)
        total = total.astype(np.float32) if context is None else total
        if self._update_running_mean:
            update(self.return_rms, context, total, active)
        dones = xp.logical_or(terminated, truncated)
        self._prev_dones = dones.astype(np.float32) if context is None else context.cast(dones, "float32")
        self.accumulated_reward = (
            xp.where(dones, xp.zeros_like(total), total) if self._is_same_step else total
        )
        return obs, scaled(self.return_rms, context, reward, self.epsilon), terminated, truncated, info
