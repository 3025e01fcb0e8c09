"""Environments with the dm_env interface as Gymnasium environments, by means of Shimmy.

* dm_control, bsuite -> Shimmy's own classes, which know how to seed and render them
* any other -> `DmEnv`, with Shimmy's rules for specs and time steps
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from arrayferry.envs.hints import refuse_options
from arrayferry.errors import NotInstalledError, UnsupportedError

__all__ = ["DmEnv", "open_with_shimmy"]


def open_with_shimmy(name: str | None, env: Any, params: Any, num_envs: Any, autoreset_mode: Any) -> Any:
    """Return an environment in Shimmy's class of that name; None for `DmEnv`."""
    refuse_options(env, num_envs=num_envs, autoreset_mode=autoreset_mode)
    try:
        import shimmy
    except ImportError as error:
        what = "Shimmy, which turns dm_env environments into Gymnasium ones, is not installed"
        raise NotInstalledError(what, "pip install shimmy dm-env") from error
    return getattr(shimmy, name)(env) if name else DmEnv(env)


class DmEnv(gym.Env[Any, Any]):
    """A dm_env environment that Shimmy has no class for. It cannot be seeded: dm_env has no way to do that.

    Args:
        env: the environment.
    """

    def __init__(self, env: Any) -> None:
        from shimmy.utils.dm_env import dm_env_step2gym_step, dm_spec2gym_space

        self._env, self._converted = env, dm_env_step2gym_step
        try:
            self.observation_space = dm_spec2gym_space(env.observation_spec())
            self.action_space = dm_spec2gym_space(env.action_spec())
        except NotImplementedError as error:
            what = f"no Gymnasium space corresponds to a spec: {error}"
            raise UnsupportedError(what, "write a gymnasium.Env for it") from error

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Start an episode."""
        super().reset(seed=seed)
        obs, *_, info = self._converted(self._env.reset())
        return obs, info

    def step(self, action: Any) -> Any:
        """Take a step; a discount of 0 at the end of an episode means that it terminated."""
        return self._converted(self._env.step(action))

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
