"""The names of `gymnasium.wrappers.rendering`, which are Gymnasium's own."""

from gymnasium.wrappers.rendering import *  # noqa: F403

from arrayferry.wrappers import _twins

_twins.mirror(__name__)
