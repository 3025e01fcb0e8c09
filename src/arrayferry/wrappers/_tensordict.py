"""Observations and actions as TensorDicts, which TorchRL and rsl_rl pass around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gymnasium import spaces
from gymnasium.vector import VectorEnv

from arrayferry.errors import FerryError, NotInstalledError, OptionError, UnsupportedError
from arrayferry.spaces.casting import subspaces
from arrayferry.wrappers._boundary import Boundary, State

__all__ = ["TensorDictBoundary"]

Space = spaces.Space[Any] | None


class TensorDictBoundary(Boundary):
    """A boundary for an agent that uses TensorDicts, which hold the converted tensors as they are.

    An observation of a Dict space is a TensorDict of its entries; of a Tuple space, its keys are "0", "1"...;
    of any other space, it is the entry "observation". An action is the entry "action", unless the keys are
    those of its space.
    """

    def __init__(self, env: Any, *arguments: Any, **options: Any) -> None:
        try:
            import tensordict
            import torch
        except ImportError as error:
            what = f"tensordict cannot be imported ({error})"
            raise NotInstalledError(what, "pip install tensordict") from error
        self._lib, self._tensor = tensordict, torch.Tensor
        super().__init__(env, *arguments, **options)
        if (target := self.outgoing.framework.name) != "torch":
            raise OptionError(
                f'as_tensordict=True with "{target}" arrays', 'a TensorDict holds tensors: convert to "torch"'
            )
        if self._is_split:  # final observations and texts have only this process's rows
            what = "as_tensordict=True with a device mesh: its batch size would only fit some entries"
            raise OptionError(what, "pass a device of this process, or leave as_tensordict out")

    # ---- out -------------------------------------------------------------------------------------------

    def _pack_step(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        batch = reward.shape[:1] or self._batch() if isinstance(self._env, VectorEnv) else ()
        if batch and "final_obs" in info:
            info["final_obs"] = self._pack(info["final_obs"], batch, 'info["final_obs"]')
        return self._pack(obs, batch, "obs"), reward, terminated, truncated, info

    def _pack_reset(self, obs: Any, info: Any) -> tuple[Any, Any]:
        return self._pack(obs, self._batch(), "obs"), info

    def _batch(self) -> tuple[int, ...]:
        return (self._env.num_envs,) if isinstance(self._env, VectorEnv) else ()

    def _pack(self, obs: Any, batch: tuple[int, ...], where: str) -> Any:
        env = self._env
        space = env.single_observation_space if batch else env.observation_space
        packed = self._packed(space, obs, batch, where)
        return (
            packed if isinstance(packed, self._lib.TensorDict) else self._new({"observation": packed}, batch)
        )

    def _packed(self, space: Space, value: Any, batch: tuple[int, ...], where: str) -> Any:
        """Return a part of an observation as something that a TensorDict can hold."""
        if isinstance(value, tuple) and isinstance(space, spaces.Tuple):
            value = {str(index): part for index, part in enumerate(value)}
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    what = f"the key {key!r} is not a string, as a TensorDict requires"
                    raise UnsupportedError(what, "give the observation space other keys", where)
            parts = _parts(space)
            entries = {
                key: self._packed(parts.get(key), part, batch, f"{where}[{key!r}]")
                for key, part in value.items()
            }
            return self._new(entries, batch)
        if isinstance(value, self._tensor):
            return value
        if batch and isinstance(value, Sequence) and not isinstance(value, str):  # texts, graphs, sequences
            return self._lib.NonTensorStack(*value)
        return self._lib.NonTensorData(value, batch_size=batch)

    def _new(self, entries: dict[str, Any], batch: tuple[int, ...]) -> Any:
        return self._lib.TensorDict(entries, batch)

    # ---- in --------------------------------------------------------------------------------------------

    def _new_state(self, *arguments: Any, **options: Any) -> State:
        state = super()._new_state(*arguments, **options)
        action, step, reset = state.convert_action, state.convert_step, state.convert_reset
        return replace(
            state,
            convert_action=lambda value: action(self._opened_action(value)),
            convert_step=lambda box: self._pack_step(*step(box)),
            convert_reset=lambda box: self._pack_reset(*reset(box)),
        )

    def _opened_action(self, action: Any) -> Any:
        if not self._lib.is_tensor_collection(action):
            return action
        space = self.state.action_space
        if not set(_parts(space)) or set(action.keys()) != set(_parts(space)):
            action = _entry(action, "action", "action")
        return _opened(space, action, "action")

    def add_note(self, error: Exception, action: Any) -> None:
        """Add what arrived, unless the TensorDict itself is wrong."""
        if not isinstance(error, FerryError):
            super().add_note(error, self._opened_action(action))


def _parts(space: Space) -> dict[str, spaces.Space[Any]]:
    """Return the spaces in a space, by the keys that they have in a TensorDict."""
    parts = subspaces(space)
    return {str(index): part for index, part in parts.items()} if isinstance(space, spaces.Tuple) else parts


def _opened(space: Space, action: Any, where: str) -> Any:
    """Return an action in the structure of its space."""
    if not (parts := _parts(space)):
        return action
    opened = {
        key: _opened(part, _entry(action, key, where), f"{where}[{key!r}]") for key, part in parts.items()
    }
    return tuple(opened.values()) if isinstance(space, spaces.Tuple) else opened


def _entry(action: Any, key: str, where: str) -> Any:
    if key not in action.keys():  # noqa: SIM118  # a TensorDict refuses `in`
        what = f"a TensorDict with the keys {sorted(action.keys())}, but without {key!r}"
        raise UnsupportedError(what, f"put what the environment takes under {key!r}", where)
    return action[key]
