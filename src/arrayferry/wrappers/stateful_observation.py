"""The names of `gymnasium.wrappers.stateful_observation`; three wrappers stay in their framework."""

from copy import deepcopy
from types import FunctionType
from typing import TYPE_CHECKING, Any

from gymnasium.core import ActType, ObsType, WrapperObsType
from gymnasium.vector.utils import concatenate
from gymnasium.wrappers import stateful_observation as theirs

from arrayferry.wrappers._compute.array_context import context_of, to_context
from arrayferry.wrappers._compute.numpy_only import ComputesWithNumpy
from arrayferry.wrappers._compute.statistics import normalize

if not TYPE_CHECKING:  # including names that newer versions add
    from gymnasium.wrappers.stateful_observation import *  # noqa: F403
    from gymnasium.wrappers.stateful_observation import __all__ as __all__


class NormalizeObservation(theirs.NormalizeObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `NormalizeObservation`, for observations of any framework."""

    def observation(self, observation: Any) -> Any:
        """Normalize an observation, and count it in the statistics if `update_running_mean` is True."""
        normalized = normalize(self, observation, is_batch=False)
        return super().observation(observation) if normalized is None else normalized


class FrameStackObservation(theirs.FrameStackObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `FrameStackObservation`, for observations of any framework."""

    def step(self, action: Any) -> Any:
        """Take a step, and return the latest observations, stacked."""
        obs: Any
        obs, *rest = self.env.step(action)
        self.obs_queue.append(to_context(None, obs))
        return self._stacked(obs), *rest

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode, and return its first observation, stacked after the padding that it needs."""
        obs: Any
        obs, info = self.env.reset(seed=seed, options=options)
        first = to_context(None, obs)
        if self.padding_type == "reset":
            self.padding_value = first
        self.obs_queue.extend([self.padding_value] * (self.stack_size - 1) + [first])
        return self._stacked(obs), info

    def _stacked(self, latest: Any) -> Any:
        out: Any = self.stacked_obs
        stacked = deepcopy(concatenate(self.env.observation_space, self.obs_queue, out))
        return to_context(context_of(latest), stacked)


class TimeAwareObservation(theirs.TimeAwareObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `TimeAwareObservation`, for observations of any framework."""

    def observation(self, observation: Any) -> Any:
        """Return an observation with the time since its episode began."""
        context = context_of(observation)
        return to_context(context, super().observation(to_context(None, observation)))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out Gymnasium's functions, which cannot be pickled."""
        return {name: value for name, value in vars(self).items() if not isinstance(value, FunctionType)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(type(self)(state["env"], **state["_saved_kwargs"])) | state)


class DelayObservation(ComputesWithNumpy, theirs.DelayObservation[ObsType, ActType]):
    """Gymnasium's `DelayObservation`."""


class MaxAndSkipObservation(ComputesWithNumpy, theirs.MaxAndSkipObservation[Any, Any, Any]):
    """Gymnasium's `MaxAndSkipObservation`."""
