"""The names of `gymnasium.wrappers.transform_action`; two of the wrappers stay in the action's framework."""

from typing import TYPE_CHECKING, Any

from gymnasium.core import ActType, ObsType, WrapperActType
from gymnasium.wrappers import transform_action as theirs
from gymnasium.wrappers.transform_action import TransformAction as TransformAction

from arrayferry.wrappers._compute.functions import ClipToSpace, Rescale

if hasattr(theirs, "DiscretizeAction"):  # not in all versions of Gymnasium
    from gymnasium.wrappers.transform_action import DiscretizeAction as DiscretizeAction
if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.transform_action import *  # noqa: F403
    from gymnasium.wrappers.transform_action import __all__ as __all__


class ClipAction(theirs.ClipAction[ObsType, WrapperActType, ActType]):
    """Gymnasium's `ClipAction`, for actions of any framework."""

    def __init__(self, env: Any) -> None:
        """Wrap an environment whose action space is a Box."""
        super().__init__(env)
        self.func = ClipToSpace(env)


class RescaleAction(theirs.RescaleAction[ObsType, WrapperActType, ActType]):
    """Gymnasium's `RescaleAction`, for actions of any framework."""

    def __init__(self, env: Any, min_action: Any, max_action: Any) -> None:
        """Wrap an environment whose action space is a Box; the bounds are NumPy arrays or numbers."""
        super().__init__(env, min_action, max_action)
        self.func = Rescale(env.action_space, min_action, max_action, is_backward=True)
