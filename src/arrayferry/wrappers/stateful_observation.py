"""The names of `gymnasium.wrappers.stateful_observation`; three wrappers stay where the arrays are."""

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from gymnasium.core import ActType, ObsType, WrapperObsType
from gymnasium.wrappers import stateful_observation as theirs

from arrayferry.wrappers._compute.array_context import context_of
from arrayferry.wrappers._compute.functions import Flatten, stack
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
        self.obs_queue.append(obs)
        return self._stacked(), *rest

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode, and return its first observation, stacked after the padding that it needs."""
        obs: Any
        obs, info = self.env.reset(seed=seed, options=options)
        if self.padding_type == "reset":
            self.padding_value = obs
        self.obs_queue.extend([self.padding_value] * (self.stack_size - 1) + [obs])
        return self._stacked(), info

    def _stacked(self) -> Any:
        return stack(self.env.observation_space, list(self.obs_queue), self.stacked_obs)


class TimeAwareObservation(theirs.TimeAwareObservation[WrapperObsType, ActType, ObsType]):
    """Gymnasium's `TimeAwareObservation`, for observations of any framework."""

    def __init__(
        self, env: Any, flatten: bool = True, normalize_time: bool = False, *, dict_time_key: str = "time"
    ) -> None:
        """Wrap an environment with a time limit; the options are Gymnasium's."""
        super().__init__(env, flatten, normalize_time, dict_time_key=dict_time_key)
        nested = theirs.TimeAwareObservation(env, False, normalize_time, dict_time_key=dict_time_key)
        self._flatten = Flatten(nested.observation_space) if flatten else None
        self._dict_time_key = dict_time_key
        kinds = spaces.Dict, spaces.Tuple
        self._holds = next((kind for kind in kinds if isinstance(env.observation_space, kind)), None)
        for name in ("_time_preprocess_func", "_append_data_func", "_obs_postprocess_func"):
            vars(self).pop(name, None)  # they cannot be pickled

    def observation(self, observation: Any) -> Any:
        """Return an observation with the time since its episode began."""
        context = context_of(observation)
        if self.normalize_time:
            time = np.array([self.timesteps / self.max_timesteps], np.float32)
        else:
            time = np.array([self.timesteps], np.int32)
        time = time if context is None else context.asarray(time)
        if self._holds is spaces.Dict:
            observation = {self._dict_time_key: time, **observation}
        elif self._holds is spaces.Tuple:
            observation = (*observation, time)
        else:
            observation = {"obs": observation, "time": time}
        return observation if self._flatten is None else self._flatten.at(context, observation)


class DelayObservation(ComputesWithNumpy, theirs.DelayObservation[ObsType, ActType]):
    """Gymnasium's `DelayObservation`."""


class MaxAndSkipObservation(ComputesWithNumpy, theirs.MaxAndSkipObservation[Any, Any, Any]):
    """Gymnasium's `MaxAndSkipObservation`."""
