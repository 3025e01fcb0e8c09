"""The names of `gymnasium.wrappers.vector.vectorize_observation`; three stay where the arrays are."""

from typing import TYPE_CHECKING, Any

from gymnasium.wrappers.vector import vectorize_observation as theirs
from gymnasium.wrappers.vector.vectorize_observation import TransformObservation as TransformObservation

from arrayferry.spaces.members import to_numpy
from arrayferry.wrappers import transform_observation as single
from arrayferry.wrappers._context import context_of
from arrayferry.wrappers._fallback import ComputesWithNumpy
from arrayferry.wrappers.vector._batches import call_once

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.vector.vectorize_observation import *  # noqa: F403

__all__ = [
    "DtypeObservation",
    "FilterObservation",
    "FlattenObservation",
    "GrayscaleObservation",
    "RescaleObservation",
    "ReshapeObservation",
    "ResizeObservation",
    "TransformObservation",
    "VectorizeTransformObservation",
]


class _Batched:
    """Calls the single wrapper's function once, with all observations."""

    env: Any

    def observations(self, observations: Any) -> Any:
        """Return observations as the wrapper makes them."""
        shape = self.env.observation_space.shape
        return call_once(self, observations, shape, super().observations)  # type: ignore[misc]


class FlattenObservation(theirs.FlattenObservation):
    """Gymnasium's `FlattenObservation`, for observations of any framework."""

    def __init__(self, env: Any) -> None:
        """Wrap a vector environment whose observations can be flattened."""
        theirs.VectorizeTransformObservation.__init__(self, env, single.FlattenObservation)

    def observations(self, observations: Any) -> Any:
        """Return a flat observation for each environment."""
        if (context := context_of(observations)) is None:
            return super().observations(observations)
        flatten: Any = self.wrapper.func
        found = flatten.batch(context, observations, self.num_envs)
        return context.asarray(super().observations(to_numpy(observations))) if found is None else found


class RescaleObservation(_Batched, theirs.RescaleObservation):
    """Gymnasium's `RescaleObservation`, for observations of any framework."""

    def __init__(self, env: Any, min_obs: Any, max_obs: Any) -> None:
        """Wrap a vector environment whose observation space is a Box; the bounds are arrays or numbers."""
        bounds = {"min_obs": min_obs, "max_obs": max_obs}
        theirs.VectorizeTransformObservation.__init__(self, env, single.RescaleObservation, **bounds)


class DtypeObservation(_Batched, theirs.DtypeObservation):
    """Gymnasium's `DtypeObservation`, for observations of any framework."""

    def __init__(self, env: Any, dtype: Any) -> None:
        """Wrap a vector environment; `dtype` is a NumPy dtype, or its name."""
        theirs.VectorizeTransformObservation.__init__(self, env, single.DtypeObservation, dtype=dtype)


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
