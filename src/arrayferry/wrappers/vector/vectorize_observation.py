"""The names of `gymnasium.wrappers.vector.vectorize_observation`, which are Gymnasium's own."""

from gymnasium.wrappers.vector.vectorize_observation import *  # noqa: F403
