"""The names of `gymnasium.wrappers.stateful_action`, which are Gymnasium's own."""

from gymnasium.wrappers.stateful_action import *  # noqa: F403
