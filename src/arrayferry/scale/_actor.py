"""What runs in a Ray actor: some of the environments, run as a worker process runs them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from arrayferry.scale._arguments import check_spaces, make_env
from arrayferry.scale._block import Block, map_arrays
from arrayferry.scale._driver import Description
from arrayferry.scale._pickling import Failure, dumps, picklable
from arrayferry.scale._worker import _Worker
from arrayferry.scale.process import ProcessVectorEnv

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["Actor", "ActorTask", "unpacked"]

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
    """Some of the environments: in this process, or in one per core if there are several cores.

    Its answers to steps and resets are the observations, the rest of a step, and the info of each environment
    by itself, as bytes: only the driver, which has all of them, stacks infos.
    """

    def __init__(self, task: ActorTask) -> None:
        self._task = task

    def make(self) -> Any:
        """Make the environments, and describe them."""
        try:
            env_fns, cores, *settings = self._task
            fns = cloudpickle.loads(env_fns)
            is_single = cores == 1 or len(fns) == 1
            self._envs: Any = _InThis(fns, *settings) if is_single else _InOthers(fns, cores, *settings)
            return _packed(None, dumps(self._envs.description))
        except Exception as error:
            return _packed(None, dumps(Failure(picklable(error))))

    def run(self, request: bytes) -> Any:
        """Call a method of the environments."""
        try:
            name, arguments, options = pickle.loads(request)
            answer = getattr(self._envs, name)(*arguments, **options)
            return _packed(*answer) if name in ("step", "reset") else _packed(None, dumps(answer))
        except Exception as error:  # including one about what cannot be pickled
            return _packed(None, dumps(Failure(picklable(error))))


class _InThis(_Worker):
    """Environments in this process."""

    def __init__(self, env_fns: Sequence[Any], mode: AutoresetMode, step_timeout: float, max_faults: int) -> None:
        self.envs = [make_env(env_fn) for env_fn in env_fns]
        self.description = Description.of(self.envs[0])
        spaces = self.description[:2]
        for index, env in enumerate(self.envs):
            check_spaces(index, (env.observation_space, env.action_space), spaces)
        self._mode, self._space = mode, spaces[0]
        self._actions = batch_space(spaces[1], len(self.envs))
        block = Block.made_by(np.zeros, *spaces, len(self.envs))
        if isinstance(self._space, Box) and block.observations[0][0].nbytes >= _LARGE:
            block = block._replace(observations=(None, None))
        self._block = block
        self._rows = [[map_arrays(lambda a: a[index,...], half) for index in range(len(self.envs))] for half in block.observations]
        self._last = [None] * len(self.envs)
        self._is_over = [False] * len(self.envs)

    def step(self, actions): return super().step(0, actions)
    def reset(self, seeds, options): return super().reset(0, seeds, options)

    def _answer(self, half: int, fits: bool, infos: list[tuple[int, bytes]]) -> Any:
        block, obs = self._block, None
        if block.observations[0] is None and all(map(self._is_plain, self._last)):
            obs = self._last
        elif not fits:
            obs, _ = super()._answer(half, fits, infos)
        if obs is None:
            obs = block.observations[half]
        return obs, (block.rewards, block.terminated, block.truncated), infos

    def _is_plain(self, obs: Any) -> bool:
        space = self._space
        is_array = isinstance(space, Box) and type(obs) is np.ndarray and obs.flags.c_contiguous
        return is_array and obs.dtype == space.dtype and obs.shape == space.shape


class _InOthers:
    """Environments in processes of their own."""

    def __init__(self, env_fns: Sequence[Any], cores: int, mode: AutoresetMode, step_timeout: float, max_faults: int) -> None:
        # A worker that hangs is replaced in here, before the driver gives up on all of them.
        self._envs = envs = _Unstacked(
            env_fns, cores, autoreset_mode=mode, step_timeout=0.9 * step_timeout, max_faults=max_faults
        )
        self.description = Description(envs.single_observation_space, envs.single_action_space, envs.metadata, envs.render_mode)
        self.call, self.render, self.close = envs.call, envs.render, envs.close
        self.set_attr = envs.set_attr

    def step(self, actions):
        obs, *numbers, infos = self._envs.step(actions)
        return obs, numbers, infos.get("", [])
    def reset(self, seeds, options):
        obs, infos = self._envs.reset(seed=seeds, options=options)
        return obs, None, infos.get("", [])


class _Unstacked(ProcessVectorEnv):
    def _add_info(self, infos, info, index):
        infos.setdefault("", []).append((index, dumps(info)))
        return infos


def _packed(obs: Any, *rest: Any) -> Any:
    """Return an answer as bytes; large arrays of observations are kept apart from them."""
    large: list[Any] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        memory = np.frombuffer(buffer.raw(), np.uint8)
        if memory.nbytes < _LARGE:
            return True
        large.append(memory)
        return False

    data: bytes = cloudpickle.dumps((obs, *rest), protocol=5, buffer_callback=is_small)
    return [data, *large] if large else data


def unpacked(message: Any) -> tuple[Any, ...]:
    """Return the observations, which may be read-only, and the rest of an answer."""
    data, *large = [message] if isinstance(message, bytes) else message
    return pickle.loads(data, buffers=large)
