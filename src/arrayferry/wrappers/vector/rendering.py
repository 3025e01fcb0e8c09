"""The names of `gymnasium.wrappers.vector.rendering`, which are Gymnasium's own."""

from gymnasium.wrappers.vector.rendering import *  # noqa: F403
