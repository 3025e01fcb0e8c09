"""The names of `gymnasium.wrappers.rendering`, which are Gymnasium's own."""

from gymnasium.wrappers.rendering import *  # noqa: F403
