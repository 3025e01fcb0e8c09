"""The names of `gymnasium.wrappers.vector.vectorize_reward`, which are Gymnasium's own."""

from gymnasium.wrappers.vector.vectorize_reward import *  # noqa: F403
