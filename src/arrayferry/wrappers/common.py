"""The names of `gymnasium.wrappers.common`, which are Gymnasium's own."""

from gymnasium.wrappers.common import *  # noqa: F403
