# ruff: noqa: F403
"""The wrappers, under the names that they have in `gymnasium.wrappers`.

To migrate, replace `gymnasium.wrappers` with `arrayferry.wrappers` in your imports. The conversion wrappers
are ours; those that compute are subclasses of Gymnasium's that stay in the framework of the arrays they are
given, or warn that they do not; all others are Gymnasium's own.

>>> import arrayferry.wrappers
>>> from arrayferry.wrappers import JaxToTorch, NumpyToTorch, RecordVideo, vector
>>> from arrayferry.wrappers.utils import RunningMeanStd
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrayferry.wrappers import _mirror
from arrayferry.wrappers import pairs as _pairs
from arrayferry.wrappers import vector as vector
from arrayferry.wrappers.array_conversion import ArrayConversion as ArrayConversion
from arrayferry.wrappers.pairs import *
from arrayferry.wrappers.wrap import wrap as wrap

if TYPE_CHECKING:  # at run time they are looked up when used
    from arrayferry.wrappers.atari_preprocessing import *
    from arrayferry.wrappers.common import *
    from arrayferry.wrappers.rendering import *
    from arrayferry.wrappers.stateful_action import *
    from arrayferry.wrappers.stateful_observation import *
    from arrayferry.wrappers.stateful_reward import *
    from arrayferry.wrappers.transform_action import *
    from arrayferry.wrappers.transform_observation import *
    from arrayferry.wrappers.transform_reward import *

_mirror.add_names(__name__, ["ArrayConversion", "vector", "wrap", *_pairs.__all__])
