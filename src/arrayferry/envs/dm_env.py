"""Environments with the dm_env interface as Gymnasium environments, by means of Shimmy.

* dm_control, bsuite -> Shimmy's own classes, which know how to seed and render them
* any other -> `DmEnv`, with Shimmy's rules for specs and time steps
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from arrayferry.envs.hints import refuse_options
from arrayferry.errors import NotInstalledError, UnsupportedError

__all__ = ["DmEnv", "open_any", "open_bsuite", "open_dm_control"]


def _opening(make: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return the `open` of an adapter; `make(shimmy, env)` returns a Gymnasium environment."""

    def open_environment(env: Any, params: Any, num_envs: Any, autoreset_mode: Any) -> Any:
        refuse_options(env, num_envs=num_envs, autoreset_mode=autoreset_mode)
        try:
            import shimmy
        except ImportError as error:
            what = "Shimmy, which turns dm_env environments into Gymnasium ones, is not installed"
            raise NotInstalledError(what, "pip install shimmy dm-env") from error
        return make(shimmy, env)

    return open_environment


open_any = _opening(lambda shimmy, env: DmEnv(env))
open_bsuite = _opening(lambda shimmy, env: shimmy.BSuiteCompatibilityV0(env))
open_dm_control = _opening(lambda shimmy, env: shimmy.DmControlCompatibilityV0(env))


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
