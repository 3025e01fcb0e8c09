"""The names of `gymnasium.wrappers.common`, Gymnasium's own, which pass arrays as they are."""

from gymnasium.wrappers.common import *  # noqa: F403
