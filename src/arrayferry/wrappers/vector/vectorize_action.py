"""The names of `gymnasium.wrappers.vector.vectorize_action`; two wrappers stay where the actions are."""

from typing import TYPE_CHECKING, Any

from gymnasium.wrappers.vector import vectorize_action as theirs
from gymnasium.wrappers.vector.vectorize_action import TransformAction as TransformAction
from gymnasium.wrappers.vector.vectorize_action import VectorizeTransformAction as VectorizeTransformAction

from arrayferry.wrappers import transform_action as single
from arrayferry.wrappers._compute.batches import call_once

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.vector.vectorize_action import *  # noqa: F403


class _Batched(theirs.VectorizeTransformAction):
    """Calls the function of our wrapper for single environments, once for all actions."""

    def __init__(self, env: Any, wrapper: Any, **options: Any) -> None:
        super().__init__(env, getattr(single, wrapper.__name__), **options)

    def actions(self, actions: Any) -> Any:
        """Return actions as the environments take them."""
        return call_once(self, actions, self.action_space.shape, super().actions)


class ClipAction(theirs.ClipAction, _Batched):
    """Gymnasium's `ClipAction`, for actions of any framework."""


class RescaleAction(theirs.RescaleAction, _Batched):
    """Gymnasium's `RescaleAction`, for actions of any framework; the bounds are NumPy arrays or numbers."""
