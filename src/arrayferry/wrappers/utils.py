"""The names of `gymnasium.wrappers.utils`, which are Gymnasium's own."""

from gymnasium.wrappers.utils import *  # noqa: F403
from gymnasium.wrappers.utils import __all__ as __all__
from gymnasium.wrappers.utils import rescale_box as rescale_box
