"""The names of `gymnasium.wrappers.vector.vectorize_observation`; three stay where the arrays are."""

from typing import TYPE_CHECKING, Any

from gymnasium.wrappers.vector import vectorize_observation as theirs
from gymnasium.wrappers.vector.vectorize_observation import TransformObservation as TransformObservation

from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers import transform_observation as single
from arrayferry.wrappers._compute.array_context import context_of
from arrayferry.wrappers._compute.batches import call_once
from arrayferry.wrappers._compute.numpy_only import ComputesWithNumpy

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.vector.vectorize_observation import *  # noqa: F403


class _Batched(theirs.VectorizeTransformObservation):
    """Calls the function of our wrapper for single environments, once for all observations."""

    def __init__(self, env: Any, wrapper: Any, **options: Any) -> None:
        super().__init__(env, getattr(single, wrapper.__name__), **options)

    def observations(self, observations: Any) -> Any:
        """Return observations as the wrapper makes them."""
        return call_once(self, observations, self.env.observation_space.shape, super().observations)


class FlattenObservation(theirs.FlattenObservation, _Batched):
    """Gymnasium's `FlattenObservation`, for observations of any framework."""

    def observations(self, observations: Any) -> Any:
        """Return a flat observation for each environment."""
        one_by_one: Any = theirs.VectorizeTransformObservation.observations
        flatten: Any = self.wrapper.func
        if (context := context_of(observations)) is None:
            return one_by_one(self, observations)
        flat = flatten.batch(context, observations, self.num_envs)
        return context.asarray(one_by_one(self, to_numpy(observations))) if flat is None else flat


class RescaleObservation(theirs.RescaleObservation, _Batched):
    """Gymnasium's `RescaleObservation`, for observations of any framework."""


class DtypeObservation(theirs.DtypeObservation, _Batched):
    """Gymnasium's `DtypeObservation`, for observations of any framework."""


class VectorizeTransformObservation(ComputesWithNumpy, theirs.VectorizeTransformObservation):
    """Gymnasium's `VectorizeTransformObservation`."""


class FilterObservation(ComputesWithNumpy, theirs.FilterObservation):
    """Gymnasium's `FilterObservation`."""


class GrayscaleObservation(ComputesWithNumpy, theirs.GrayscaleObservation):
    """Gymnasium's `GrayscaleObservation`."""


class ResizeObservation(ComputesWithNumpy, theirs.ResizeObservation):
    """Gymnasium's `ResizeObservation`."""


class ReshapeObservation(ComputesWithNumpy, theirs.ReshapeObservation):
    """Gymnasium's `ReshapeObservation`."""
