"""The names of `gymnasium.wrappers.transform_observation`, for observations of any framework.

Those that transform with a function of yours, or filter, are Gymnasium's own.
"""

from typing import TYPE_CHECKING, Any

from gymnasium.core import ActType, ObsType, WrapperObsType
from gymnasium.wrappers import transform_observation as theirs
from gymnasium.wrappers.transform_observation import FilterObservation as FilterObservation
from gymnasium.wrappers.transform_observation import TransformObservation as TransformObservation

from arrayferry.wrappers._compute import ObservationInNumpy, Rebuilt

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.transform_observation import *  # noqa: F403
    from gymnasium.wrappers.transform_observation import __all__ as __all__


class _InNumpy(ObservationInNumpy, Rebuilt):
    """Both base classes."""


class FlattenObservation(_InNumpy, theirs.FlattenObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `FlattenObservation`."""


class RescaleObservation(_InNumpy, theirs.RescaleObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `RescaleObservation`."""


class DtypeObservation(_InNumpy, theirs.DtypeObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `DtypeObservation`."""


class GrayscaleObservation(_InNumpy, theirs.GrayscaleObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `GrayscaleObservation`."""


class ReshapeObservation(_InNumpy, theirs.ReshapeObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `ReshapeObservation`."""


class ResizeObservation(_InNumpy, theirs.ResizeObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `ResizeObservation`."""


class AddRenderObservation(_InNumpy, theirs.AddRenderObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `AddRenderObservation`."""


if hasattr(theirs, "DiscretizeObservation"):  # not in all versions of Gymnasium

    class DiscretizeObservation(_InNumpy, theirs.DiscretizeObservation[Any, Any, Any]):
        """Gymnasium's `DiscretizeObservation`."""
