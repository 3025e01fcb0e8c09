"""XLand-MiniGrid: `env, params = xminigrid.make(...)`. Its state is its timestep."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from arrayferry.envs._interface import Interface, layers, without

__all__ = ["interface"]

_RESETTING = ("xminigrid:GymAutoResetWrapper", "xminigrid:DmEnvAutoResetWrapper")


def interface(env: Any, params: Any) -> Interface:
    """Describe an environment; `discount` is 0 when an episode terminates."""
    env = without(env, "_env", *_RESETTING)
    params = env.default_params() if params is None else params

    def reset(key: Any) -> tuple[Any, Any, dict[str, Any]]:
        timestep = env.reset(params, key)
        return timestep, timestep.observation, {}

    def step(key: Any, timestep: Any, action: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        timestep = env.step(params, timestep, action)
        terminated = timestep.last() & (timestep.discount == 0)
        return timestep, timestep.observation, timestep.reward, terminated, timestep.last() & ~terminated, {}

    is_text = getattr(params, "render_mode", None) == "rich_text"
    return Interface(
        reset,
        step,
        None,
        spaces.Discrete(env.num_actions(params)),
        name=f"xminigrid/{type(layers(env, '_env')[-1]).__name__}",
        render=lambda timestep: env.render(params, timestep),
        render_mode="ansi" if is_text else "rgb_array",
    )
