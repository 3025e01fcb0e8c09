"""The names of `gymnasium.wrappers.stateful_reward`, which are Gymnasium's own."""

from gymnasium.wrappers.stateful_reward import *  # noqa: F403
