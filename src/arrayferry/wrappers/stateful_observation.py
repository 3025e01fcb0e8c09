"""The names of `gymnasium.wrappers.stateful_observation`, which are Gymnasium's own."""

from gymnasium.wrappers.stateful_observation import *  # noqa: F403

from arrayferry.wrappers import _twins

_twins.mirror(__name__)
