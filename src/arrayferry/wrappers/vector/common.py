"""The names of `gymnasium.wrappers.vector.common`, which are Gymnasium's own."""

from gymnasium.wrappers.vector.common import *  # noqa: F403
