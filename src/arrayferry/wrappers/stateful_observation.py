"""The names of `gymnasium.wrappers.stateful_observation`, which are Gymnasium's own."""

from gymnasium.wrappers.stateful_observation import *  # noqa: F403
