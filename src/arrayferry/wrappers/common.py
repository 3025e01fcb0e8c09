"""The names of `gymnasium.wrappers.common`, Gymnasium's own, which pass arrays through unchanged."""

from gymnasium.wrappers.common import *  # noqa: F403
