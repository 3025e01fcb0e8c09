"""The names of `gymnasium.wrappers.transform_observation`.

Flattening, rescaling and casting stay in the framework of the observation. So do transforming and filtering,
which are Gymnasium's own; the others compute with NumPy.
"""

from typing import TYPE_CHECKING, Any

from gymnasium.core import ActType, ObsType, WrapperObsType
from gymnasium.wrappers import transform_observation as theirs
from gymnasium.wrappers.transform_observation import FilterObservation as FilterObservation
from gymnasium.wrappers.transform_observation import TransformObservation as TransformObservation

from arrayferry.wrappers._compute.functions import Cast, Flatten, Rescale
from arrayferry.wrappers._compute.numpy_only import ComputesWithNumpy

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.transform_observation import *  # noqa: F403
    from gymnasium.wrappers.transform_observation import __all__ as __all__


class FlattenObservation(theirs.FlattenObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `FlattenObservation`, for observations of any framework."""

    def __init__(self, env: Any) -> None:
        """Wrap an environment whose observations can be flattened."""
        super().__init__(env)
        self.func = Flatten(env.observation_space)


class RescaleObservation(theirs.RescaleObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `RescaleObservation`, for observations of any framework."""

    def __init__(self, env: Any, min_obs: Any, max_obs: Any) -> None:
        """Wrap an environment whose observation space is a Box; the bounds are NumPy arrays or numbers."""
        super().__init__(env, min_obs, max_obs)
        self.func = Rescale(env.observation_space, min_obs, max_obs)


class DtypeObservation(theirs.DtypeObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `DtypeObservation`, for observations of any framework."""

    def __init__(self, env: Any, dtype: Any) -> None:
        """Wrap an environment; `dtype` is a NumPy dtype, or its name."""
        super().__init__(env, dtype)
        self.func = Cast(self.observation_space.dtype)


class GrayscaleObservation(ComputesWithNumpy, theirs.GrayscaleObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `GrayscaleObservation`."""


class ReshapeObservation(ComputesWithNumpy, theirs.ReshapeObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `ReshapeObservation`."""


class ResizeObservation(ComputesWithNumpy, theirs.ResizeObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `ResizeObservation`."""


class AddRenderObservation(ComputesWithNumpy, theirs.AddRenderObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `AddRenderObservation`."""


if hasattr(theirs, "DiscretizeObservation"):  # not in all versions of Gymnasium

    class DiscretizeObservation(ComputesWithNumpy, theirs.DiscretizeObservation[Any, Any, Any]):
        """Gymnasium's `DiscretizeObservation`."""
