"""The names of `gymnasium.wrappers.atari_preprocessing`."""

from gymnasium.wrappers import atari_preprocessing as theirs

from arrayferry.wrappers._compute.numpy_only import ComputesWithNumpy

__all__ = ["AtariPreprocessing"]


class AtariPreprocessing(ComputesWithNumpy, theirs.AtariPreprocessing):
    """Gymnasium's `AtariPreprocessing`."""
