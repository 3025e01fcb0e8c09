"""The names of `gymnasium.wrappers.atari_preprocessing`."""

from typing import TYPE_CHECKING

from gymnasium.wrappers import atari_preprocessing as theirs

from arrayferry.wrappers._compute.numpy_only import ComputesWithNumpy

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.atari_preprocessing import *  # noqa: F403

__all__ = ["AtariPreprocessing"]


class AtariPreprocessing(ComputesWithNumpy, theirs.AtariPreprocessing):
    """Gymnasium's `AtariPreprocessing`."""
