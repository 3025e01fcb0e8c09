"""The names of `gymnasium.wrappers.transform_reward`, which are Gymnasium's own."""

from gymnasium.wrappers.transform_reward import *  # noqa: F403
