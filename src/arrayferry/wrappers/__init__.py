# ruff: noqa: F403
"""The wrappers, by the names that they have in `gymnasium.wrappers`.

To move, replace `gymnasium.wrappers` by `arrayferry.wrappers` in an import. The conversion wrappers are ours;
those that compute are subclasses of Gymnasium's, which stay in the framework of the arrays that pass, or say
that they do not; all others are Gymnasium's.

>>> import arrayferry.wrappers
>>> from arrayferry.wrappers import JaxToTorch, NumpyToTorch, RecordVideo, vector
>>> from arrayferry.wrappers.utils import RunningMeanStd
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrayferry.wrappers import _twins
from arrayferry.wrappers import pairs as _pairs
from arrayferry.wrappers import vector as vector
from arrayferry.wrappers._wrap import wrap as wrap
from arrayferry.wrappers.array_conversion import ArrayConversion as ArrayConversion
from arrayferry.wrappers.pairs import *

if TYPE_CHECKING:  # at run time they are found when they are used
    from arrayferry.wrappers.atari_preprocessing import *
    from arrayferry.wrappers.common import *
    from arrayferry.wrappers.rendering import *
    from arrayferry.wrappers.stateful_action import *
    from arrayferry.wrappers.stateful_observation import *
    from arrayferry.wrappers.stateful_reward import *
    from arrayferry.wrappers.transform_action import *
    from arrayferry.wrappers.transform_observation import *
    from arrayferry.wrappers.transform_reward import *

_twins.install_finder()
_twins.add_names(__name__, ["ArrayConversion", "vector", "wrap", *_pairs.__all__])
