"""The names of `gymnasium.wrappers.transform_observation`, which are Gymnasium's own."""

from gymnasium.wrappers.transform_observation import *  # noqa: F403
