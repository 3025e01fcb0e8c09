"""The names of `gymnasium.wrappers.vector.stateful_observation`, which are Gymnasium's own."""

from gymnasium.wrappers.vector.stateful_observation import *  # noqa: F403
