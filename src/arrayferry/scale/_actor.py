"""What runs in a Ray actor: some of the environments, as a vector environment of their own."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from arrayferry.scale._driver import Description
from arrayferry.scale._pickling import Failure, dumps, picklable
from arrayferry.scale.process import ProcessVectorEnv

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["Actor", "ActorTask", "packed", "unpacked"]

# Ray copies anything larger into its object store: no need to copy it into a pickle first.
_LARGE = 64 * 1024


class ActorTask(NamedTuple):
    """What an actor is to do."""

    env_fns: bytes
    cores: int
    autoreset_mode: AutoresetMode
    step_timeout: float
    max_faults: int


class Actor:
    """Some of the environments: in this process, or in one per core if there are several cores."""

    def __init__(self, task: ActorTask) -> None:
        self._task = task

    def make(self) -> Any:
        """Make the environments, and describe them."""
        try:
            self._envs = envs = self._made()
            self._space = space = envs.single_observation_space
            made = packed(None, Description(space, envs.single_action_space, envs.metadata, envs.render_mode))
            self._is_apart = isinstance(envs, SyncVectorEnv) and _is_large(space)
            if self._is_apart:
                envs.single_observation_space = Space()  # Gymnasium stacks nothing without a shape
            return made
        except Exception as error:
            return packed(None, Failure(picklable(error)))

    def _made(self) -> VectorEnv[Any, Any, Any]:
        env_fns: list[Callable[[], gym.Env[Any, Any]]] = cloudpickle.loads(self._task.env_fns)
        _, cores, mode, timeout, max_faults = self._task
        if cores == 1 or len(env_fns) == 1:
            return SyncVectorEnv(env_fns, copy=False, autoreset_mode=mode)
        # A worker that hangs is replaced in here, before the driver gives up on all of them.
        return ProcessVectorEnv(
            env_fns, cores, autoreset_mode=mode, step_timeout=0.9 * timeout, max_faults=max_faults
        )

    def run(self, request: bytes) -> Any:
        """Call a method of the vector environment."""
        try:
            name, arguments, options = pickle.loads(request)
            if name == "reset":
                arguments, options = (), dict(zip(("seed", "options"), arguments))
            elif name in ("run_on", "set_attr"):
                return packed(None, getattr(self, f"_{name}")(*arguments, **options))
            found = getattr(self._envs, name)(*arguments, **options)
            if name not in ("step", "reset"):
                return packed(None, found)
            obs, *rest = found
            return packed(self._for_driver(obs) if self._is_apart else obs, *rest)
        except Exception as error:  # including one about what cannot be pickled
            return packed(None, Failure(picklable(error)))

    def _run_on(self, indices: list[int], function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if isinstance(envs := self._envs, ProcessVectorEnv):
            return envs.run_on(indices, function, *args, **kwargs)
        return [function(envs.envs[index], *args, **kwargs) for index in indices]  # type: ignore[attr-defined]

    def _set_attr(self, name: str, values: dict[int, Any]) -> None:
        if isinstance(envs := self._envs, ProcessVectorEnv):
            return envs.set_attr_of(values, name, list(values.values()))
        for index, value in values.items():
            envs.envs[index].set_wrapper_attr(name, value)  # type: ignore[attr-defined]
        return None

    def _for_driver(self, observations: tuple[Any, ...]) -> Any:
        """Return large observations as a list, for the driver to stack: here, it would be an extra copy."""
        space = self._space
        for one in observations:
            is_array = type(one) is np.ndarray and one.flags.c_contiguous
            if not is_array or one.dtype != space.dtype or one.shape != space.shape:
                empty: Any = create_empty_array(space, len(observations))
                return concatenate(space, observations, empty)
        return list(observations)


def _is_large(space: Space[Any]) -> bool:
    """Return whether a member is one array, large enough to be worth sending by itself."""
    return isinstance(space, Box) and int(np.prod(space.shape)) * space.dtype.itemsize >= _LARGE


def packed(obs: Any, *rest: Any) -> Any:
    """Return an answer as bytes; large observations are kept apart from them.

    The rest is a pickle of its own: what Ray itself unpacks is read-only, and callers may want to write.
    """
    large: list[Any] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        memory = np.frombuffer(buffer.raw(), np.uint8)
        if memory.nbytes < _LARGE:
            return True
        large.append(memory)
        return False

    answer = obs, dumps(rest)
    data: bytes = cloudpickle.dumps(answer, protocol=5, buffer_callback=is_small)
    return [data, *large] if large else data


def unpacked(message: Any) -> tuple[Any, ...]:
    """Return the observations, which may be read-only, and the rest of an answer."""
    data, *large = [message] if isinstance(message, bytes) else message
    obs, rest = pickle.loads(data, buffers=large)
    return (obs, *pickle.loads(rest))
