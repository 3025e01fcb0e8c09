"""The names of `gymnasium.wrappers.atari_preprocessing`."""

from typing import TYPE_CHECKING

from gymnasium.wrappers import atari_preprocessing as theirs

from arrayferry.wrappers._fallback import ComputesWithNumpy

if not TYPE_CHECKING:  # also the names of newer versions
    from gymnasium.wrappers.atari_preprocessing import *  # noqa: F403

__all__ = ["AtariPreprocessing"]


class AtariPreprocessing(ComputesWithNumpy, theirs.AtariPreprocessing):
    """Gymnasium's `AtariPreprocessing`."""
