"""The names of `gymnasium.wrappers.vector.vectorize_action`, which are Gymnasium's own."""

from gymnasium.wrappers.vector.vectorize_action import *  # noqa: F403
