"""The names of `gymnasium.wrappers.vector.vectorize_action`; two wrappers stay where the actions are."""

from typing import TYPE_CHECKING, Any

from gymnasium.wrappers.vector import vectorize_action as theirs
from gymnasium.wrappers.vector.vectorize_action import TransformAction as TransformAction
from gymnasium.wrappers.vector.vectorize_action import VectorizeTransformAction as VectorizeTransformAction

from arrayferry.wrappers import transform_action as single
from arrayferry.wrappers.vector._batches import call_once

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.vector.vectorize_action import *  # noqa: F403

__all__ = ["ClipAction", "RescaleAction", "TransformAction", "VectorizeTransformAction"]


class _Batched:
    """Calls the single wrapper's function once, with all actions."""

    action_space: Any

    def actions(self, actions: Any) -> Any:
        """Return actions as the environments take them."""
        return call_once(self, actions, self.action_space.shape, super().actions)  # type: ignore[misc]


class ClipAction(_Batched, theirs.ClipAction):
    """Gymnasium's `ClipAction`, for actions of any framework."""

    def __init__(self, env: Any) -> None:
        """Wrap a vector environment whose action space is a Box."""
        theirs.VectorizeTransformAction.__init__(self, env, single.ClipAction)


class RescaleAction(_Batched, theirs.RescaleAction):
    """Gymnasium's `RescaleAction`, for actions of any framework."""

    def __init__(self, env: Any, min_action: Any, max_action: Any) -> None:
        """Wrap a vector environment whose action space is a Box; the bounds are NumPy arrays or numbers."""
        bounds = {"min_action": min_action, "max_action": max_action}
        theirs.VectorizeTransformAction.__init__(self, env, single.RescaleAction, **bounds)
