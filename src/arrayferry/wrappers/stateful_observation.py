"""The names of `gymnasium.wrappers.stateful_observation`, for observations of any framework."""

from typing import TYPE_CHECKING, Any

from gymnasium.core import ActType, ObsType, WrapperObsType
from gymnasium.wrappers import stateful_observation as theirs

from arrayferry.wrappers._compute import ObservationInNumpy, Rebuilt, StepInNumpy

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.stateful_observation import *  # noqa: F403
    from gymnasium.wrappers.stateful_observation import __all__ as __all__


class NormalizeObservation(ObservationInNumpy, theirs.NormalizeObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `NormalizeObservation`."""


class FrameStackObservation(StepInNumpy, theirs.FrameStackObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `FrameStackObservation`."""


class TimeAwareObservation(
    ObservationInNumpy, Rebuilt, theirs.TimeAwareObservation[WrapperObsType, ActType, ObsType]
):
    """Gymnasium's `TimeAwareObservation`."""


class DelayObservation(ObservationInNumpy, theirs.DelayObservation[ObsType, ActType]):
    """Gymnasium's `DelayObservation`."""


class MaxAndSkipObservation(StepInNumpy, theirs.MaxAndSkipObservation[Any, Any, Any]):
    """Gymnasium's `MaxAndSkipObservation`."""
