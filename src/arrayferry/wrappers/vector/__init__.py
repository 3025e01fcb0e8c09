# ruff: noqa: F403
"""The wrappers for vector environments, under the names that they have in `gymnasium.wrappers.vector`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrayferry.wrappers import _mirror
from arrayferry.wrappers.vector import pairs as _pairs
from arrayferry.wrappers.vector.array_conversion import ArrayConversion as ArrayConversion
from arrayferry.wrappers.vector.pairs import *

if TYPE_CHECKING:  # at run time they are looked up when used
    from arrayferry.wrappers.vector.common import *
    from arrayferry.wrappers.vector.dict_info_to_list import *
    from arrayferry.wrappers.vector.rendering import *
    from arrayferry.wrappers.vector.stateful_observation import *
    from arrayferry.wrappers.vector.stateful_reward import *
    from arrayferry.wrappers.vector.vectorize_action import *
    from arrayferry.wrappers.vector.vectorize_observation import *
    from arrayferry.wrappers.vector.vectorize_reward import *

_mirror.add_names(__name__, ["ArrayConversion", *_pairs.__all__])
