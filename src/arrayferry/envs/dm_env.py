"""Environments with the dm_env interface as Gymnasium environments, by means of Shimmy.

* dm_control, bsuite -> Shimmy's own classes, which know how to seed and render them
* any other -> `DmEnv`, with Shimmy's rules for specs and time steps
* EnvPool's dm type -> `EnvPoolDmEnv`, a vector environment
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from arrayferry.errors import NotInstalledError, UnsupportedError

__all__ = ["DmEnv", "EnvPoolDmEnv", "as_gymnasium"]

# Shimmy's class for the environments of each of these classes.
_SHIMMY = {
    "dm_control.rl.control:Environment": "DmControlCompatibilityV0",
    "dm_control.composer:Environment": "DmControlCompatibilityV0",
    "bsuite.environments:Environment": "BSuiteCompatibilityV0",
}


def as_gymnasium(env: Any, num_envs: int | None = None) -> gym.Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """Return a dm_env environment as a Gymnasium environment.

    Args:
        env: the environment.
        num_envs: must be None: the number of environments is already fixed.
    """
    if num_envs is not None:
        what = f"num_envs={num_envs}: the number of environments of a {type(env).__name__} is fixed"
        raise UnsupportedError(what, "make many of them, in a gymnasium.vector.SyncVectorEnv")
    try:
        import shimmy
    except ImportError as error:
        what = "Shimmy, which turns dm_env environments into Gymnasium ones, is not installed"
        raise NotInstalledError(what, "pip install shimmy dm-env") from error
    if hasattr(env, "all_env_ids"):
        return EnvPoolDmEnv(env)
    for name, adapter in _SHIMMY.items():
        module, _, attribute = name.partition(":")
        cls = getattr(sys.modules.get(module), attribute, None)
        if cls is not None and isinstance(env, cls):
            adapted: gym.Env[Any, Any] = getattr(shimmy, adapter)(env)
            return adapted
    return DmEnv(env)


def _space(spec: Any) -> gym.Space[Any]:
    from shimmy.utils.dm_env import dm_spec2gym_space

    try:
        space: gym.Space[Any] = dm_spec2gym_space(spec)
    except NotImplementedError as error:
        raise UnsupportedError(
            f"no Gymnasium space corresponds to {spec}", "write a gymnasium.Env for it"
        ) from error
    return space


class DmEnv(gym.Env[Any, Any]):
    """A dm_env environment that Shimmy has no class for. It cannot be seeded: dm_env has no way to do that.

    Args:
        env: the environment.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self.observation_space, self.action_space = _space(env.observation_spec()), _space(env.action_spec())

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Start an episode."""
        super().reset(seed=seed)
        obs, *_, info = self._converted(self._env.reset())
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step; a discount of 0 at the end of an episode means that it terminated."""
        return self._converted(self._env.step(action))

    def _converted(self, timestep: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        from shimmy.utils.dm_env import dm_env_step2gym_step

        found: tuple[Any, Any, bool, bool, dict[str, Any]] = dm_env_step2gym_step(timestep)
        return found

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class EnvPoolDmEnv(VectorEnv[Any, Any, Any]):
    """EnvPool's dm type, whose time steps hold many environments each. It was seeded when it was made.

    Args:
        env: what `envpool.make(..., env_type="dm")` returns.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self.num_envs = int(env.config["num_envs"])
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = _space(_observed(env.observation_spec())[0])
        self.single_action_space = _space(env.action_spec())
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in all environments."""
        obs, *_, info = _batch(self._env.reset())
        return obs, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step in all environments."""
        dtype = self._env.action_spec().dtype
        return _batch(self._env.step(np.asarray(actions).astype(dtype, copy=False)))

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments."""
        self._env.close()


def _observed(state: Any) -> tuple[Any, dict[str, Any]]:
    """Return the observation in EnvPool's state, or in its specs, and everything else in it."""
    fields = state._asdict()
    rest = {name: fields.pop(name) for name in ("env_id", "players")}
    if "obs" in fields:
        return fields.pop("obs"), rest | fields
    return fields, rest


def _batch(timestep: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    obs, info = _observed(timestep.observation)
    last = np.asarray(timestep.step_type) == 2  # dm_env.StepType.LAST
    terminated = last & (np.asarray(timestep.discount) == 0)
    return obs, timestep.reward, terminated, last & ~terminated, info | {"discount": timestep.discount}
