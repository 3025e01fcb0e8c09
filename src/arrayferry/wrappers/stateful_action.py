"""The names of `gymnasium.wrappers.stateful_action`, which are Gymnasium's own."""

from gymnasium.wrappers.stateful_action import *  # noqa: F403

from arrayferry.wrappers import _twins

_twins.mirror(__name__)
