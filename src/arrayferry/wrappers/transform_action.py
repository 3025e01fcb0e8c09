"""The names of `gymnasium.wrappers.transform_action`, which are Gymnasium's own."""

from gymnasium.wrappers.transform_action import *  # noqa: F403

try:  # noqa: SIM105  (`suppress` would be one of the names)
    from gymnasium.wrappers.transform_action import DiscretizeAction as DiscretizeAction
except ImportError:  # not in all versions of Gymnasium
    pass
