"""The names of `gymnasium.wrappers.vector.vectorize_observation`, for observations of any framework."""

from typing import TYPE_CHECKING, Any

from gymnasium.wrappers.vector import vectorize_observation as theirs
from gymnasium.wrappers.vector.vectorize_observation import TransformObservation as TransformObservation

from arrayferry.wrappers import transform_observation as single
from arrayferry.wrappers._compute import at_once, in_numpy

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.vector.vectorize_observation import *  # noqa: F403


class VectorizeTransformObservation(theirs.VectorizeTransformObservation):
    """Gymnasium's `VectorizeTransformObservation`."""

    def observations(self, observations: Any) -> Any:
        """Return observations as the wrapper makes them."""
        return in_numpy(super().observations, observations)


class _OfOurs(VectorizeTransformObservation):
    """Vectorizes our wrapper for single environments."""

    def __init__(self, env: Any, wrapper: Any, **options: Any) -> None:
        super().__init__(env, getattr(single, wrapper.__name__), **options)


class FilterObservation(theirs.FilterObservation, _OfOurs):
    """Gymnasium's `FilterObservation`."""


class FlattenObservation(theirs.FlattenObservation, _OfOurs):
    """Gymnasium's `FlattenObservation`."""


class GrayscaleObservation(theirs.GrayscaleObservation, _OfOurs):
    """Gymnasium's `GrayscaleObservation`."""


class ResizeObservation(theirs.ResizeObservation, _OfOurs):
    """Gymnasium's `ResizeObservation`."""


class ReshapeObservation(theirs.ReshapeObservation, _OfOurs):
    """Gymnasium's `ReshapeObservation`."""


class _AtOnce(_OfOurs):
    """Calls the function of the wrapper for single environments once for all observations."""

    def observations(self, observations: Any) -> Any:
        """Return observations as the wrapper makes them."""
        return at_once(self, observations, self.env.observation_space.shape, super().observations)


class RescaleObservation(theirs.RescaleObservation, _AtOnce):
    """Gymnasium's `RescaleObservation`."""


class DtypeObservation(theirs.DtypeObservation, _AtOnce):
    """Gymnasium's `DtypeObservation`."""
