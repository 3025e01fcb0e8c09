"""The names of `gymnasium.wrappers.vector.dict_info_to_list`, which are Gymnasium's own."""

from gymnasium.wrappers.vector.dict_info_to_list import *  # noqa: F403
