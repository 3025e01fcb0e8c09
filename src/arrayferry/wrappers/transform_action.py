"""The names of `gymnasium.wrappers.transform_action`, which are Gymnasium's own."""

from typing import TYPE_CHECKING

from gymnasium.wrappers.transform_action import *  # noqa: F403

from arrayferry.wrappers import _twins

if TYPE_CHECKING:  # not in all versions of Gymnasium
    from gymnasium.wrappers.transform_action import DiscretizeAction as DiscretizeAction

_twins.mirror(__name__)
