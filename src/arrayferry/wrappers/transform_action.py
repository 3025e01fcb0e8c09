"""The names of `gymnasium.wrappers.transform_action`, for actions of any framework."""

from typing import TYPE_CHECKING, Any

from gymnasium.core import ActType, ObsType, WrapperActType
from gymnasium.wrappers import transform_action as theirs
from gymnasium.wrappers.transform_action import TransformAction as TransformAction

from arrayferry.wrappers._compute import Rebuilt, in_numpy

if hasattr(theirs, "DiscretizeAction"):  # not in all versions of Gymnasium
    from gymnasium.wrappers.transform_action import DiscretizeAction as DiscretizeAction
if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.transform_action import *  # noqa: F403
    from gymnasium.wrappers.transform_action import __all__ as __all__


class _InNumpy(Rebuilt):
    def action(self, action: Any) -> Any:
        """Return the action as the environment takes it."""
        return in_numpy(super().action, action)  # type: ignore[misc]


class ClipAction(_InNumpy, theirs.ClipAction[ObsType, WrapperActType, ActType]):
    """Gymnasium's `ClipAction`."""


class RescaleAction(_InNumpy, theirs.RescaleAction[ObsType, WrapperActType, ActType]):
    """Gymnasium's `RescaleAction`."""
