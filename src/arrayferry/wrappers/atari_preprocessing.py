"""The names of `gymnasium.wrappers.atari_preprocessing`, which are Gymnasium's own."""

from gymnasium.wrappers.atari_preprocessing import *  # noqa: F403
