"""The names of `gymnasium.wrappers.vector.stateful_reward`, which are Gymnasium's own."""

from gymnasium.wrappers.vector.stateful_reward import *  # noqa: F403
