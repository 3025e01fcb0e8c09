"""The names of `gymnasium.wrappers.atari_preprocessing`."""

from gymnasium.wrappers import atari_preprocessing as theirs

from arrayferry.wrappers._compute import StepInNumpy

__all__ = ["AtariPreprocessing"]


class AtariPreprocessing(StepInNumpy, theirs.AtariPreprocessing):
    """Gymnasium's `AtariPreprocessing`, whose frames come in the framework of the environment."""
