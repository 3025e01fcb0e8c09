"""Batched spaces of vector environments: some, such as EnvPool's, have only those of a single environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["action_space_of", "observation_space_of"]


def action_space_of(env: Any) -> spaces.Space[Any]:
    """Return the space of what `env.step` takes; for a vector environment, the batched one."""
    return _batched(env, env.action_space, "single_action_space")


def observation_space_of(env: Any) -> spaces.Space[Any]:
    """Return the space of what `env.step` observes; for a vector environment, the batched one."""
    return _batched(env, env.observation_space, "single_observation_space")


def _batched(env: Any, space: spaces.Space[Any], single: str) -> spaces.Space[Any]:
    if isinstance(env, VectorEnv) and space == getattr(env, single, None):
        return batch_space(space, env.num_envs)
    return space
