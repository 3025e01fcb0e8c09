"""Environments with TensorDicts, which TorchRL and rsl_rl pass around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import tensordict
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper

from arrayferry._boundary.rows import batch_devices
from arrayferry._core.registry import find_framework, framework_of
from arrayferry.errors import OptionError, UnsupportedError
from arrayferry.spaces.structure import subspaces
from arrayferry.wrappers import wrap

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from arrayferry.wrappers.base import Options


class _TensorDicts:
    """What both wrappers do; the environment inside returns tensors."""

    env: Any

    def __init__(self, env: Any) -> None:
        RecordConstructorArgs.__init__(self)  # type: ignore[arg-type]
        super().__init__(env)  # type: ignore[call-arg]  # the wrapper's
        self._batch = (env.num_envs,) if isinstance(env, VectorEnv) else ()

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._pack(obs), info

    def _step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(_unpack(self.env.action_space, action))
        if self._batch and "final_obs" in info:
            info["final_obs"] = self._pack(info["final_obs"])
        return self._pack(obs), reward, terminated, truncated, info

    def _pack(self, obs: Any) -> Any:
        space = self.env.single_observation_space if self._batch else self.env.observation_space
        entry = self._entry(space, obs)
        is_packed = isinstance(entry, tensordict.TensorDict)
        return entry if is_packed else tensordict.TensorDict({"observation": entry}, self._batch)

    def _entry(self, space: spaces.Space[Any] | None, value: Any) -> Any:
        """Return a part of an observation as something that a TensorDict can hold."""
        framework = framework_of(type(value))
        if tensordict.is_tensor_collection(value) or (framework is not None and framework.name == "torch"):
            return value
        parts = {str(key): part for key, part in subspaces(space).items()}
        if isinstance(space, spaces.Tuple) and isinstance(value, tuple):
            value = dict(zip(map(str, range(len(value))), value))
        if isinstance(value, Mapping):
            if not all(isinstance(key, str) for key in value):
                what = f"the keys {list(value)} are not all strings, as a TensorDict requires"
                raise UnsupportedError(what, "give the observation space other keys", "obs")
            entries = {key: self._entry(parts.get(key), part) for key, part in value.items()}
            return tensordict.TensorDict(entries, self._batch)
        if self._batch and isinstance(value, Sequence) and not isinstance(value, str):  # texts, sequences
            return tensordict.NonTensorStack(*value)  # pyright: ignore[reportAbstractUsage]
        return tensordict.NonTensorData(value, batch_size=self._batch)


class TensorDictEnv(_TensorDicts, gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A single environment with TensorDicts: see `tensordict_env`."""

    def step(self, action: Any) -> Any:
        """Take a step, with an action that may be a TensorDict."""
        return self._step(action)


class TensorDictVectorEnv(_TensorDicts, VectorWrapper, RecordConstructorArgs):
    """A vector environment with TensorDicts: see `tensordict_env`."""

    def step(self, actions: Any) -> Any:
        """Take a step in all environments, with actions that may be a TensorDict."""
        return self._step(actions)


def make_env(env: Any, device: Any, **options: Unpack[Options]) -> TensorDictEnv | TensorDictVectorEnv:
    """See `tensordict_env`."""
    dense: Any = {"dense_final": True} if isinstance(env, VectorEnv) else {}
    view: Any = wrap(env, "torch", device, **dense, **options)
    if isinstance(view, gym.Env):
        return TensorDictEnv(view)
    if not isinstance(view, VectorEnv):
        what = f"{type(env).__qualname__} has many agents, and a TensorDict is for one"
        raise UnsupportedError(what, 'use arrayferry.wrap(env, "torch")')
    batches, others = batch_devices(find_framework("torch"), device, view)
    if batches is not others:
        what = "TensorDicts with a device mesh: their batch size would only fit some entries"
        raise OptionError(what, 'pass a device of this process, or use arrayferry.wrap(envs, "torch", ...)')
    return TensorDictVectorEnv(view)


def _unpack(space: spaces.Space[Any], action: Any) -> Any:
    """Return the action in a TensorDict: its entry "action", or itself if its keys are those of the space."""
    if not tensordict.is_tensor_collection(action):
        return action
    keys = set(map(str, subspaces(space)))
    is_whole = keys and keys == set(action.keys())
    return _in_structure(space, action if is_whole else action["action"])


def _in_structure(space: spaces.Space[Any], action: Any) -> Any:
    parts = {key: _in_structure(part, action[str(key)]) for key, part in subspaces(space).items()}
    return tuple(parts.values()) if isinstance(space, spaces.Tuple) else parts or action
