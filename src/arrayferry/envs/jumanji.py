"""Jumanji: `env = jumanji.make(...)`. Most games have a discount of 0 at their time limits, too."""

from __future__ import annotations

from functools import partial
from typing import Any

from arrayferry.envs._interface import Interface, unlimited, without
from arrayferry.errors import UnsupportedError

__all__ = ["interface"]

_RESETTING = ("jumanji:AutoResetWrapper", "jumanji:VmapAutoResetWrapper", "jumanji:VmapWrapper")


def interface(env: Any, params: Any) -> Interface:
    """Describe an environment; observations become dicts, as in Jumanji's own adapter for Gymnasium."""
    from jumanji.specs import jumanji_specs_to_gym_spaces

    env = without(env, "_env", *_RESETTING)
    endless = unlimited(env, ("time_limit",), ("_env",))

    def reset(key: Any) -> tuple[Any, Any, dict[str, Any]]:
        state, timestep = env.reset(key)
        return state, _plain(timestep.observation), dict(timestep.extras)

    def step(key: Any, state: Any, action: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        _, without_limit = endless.step(state, action)
        state, timestep = env.step(state, action)
        terminated = without_limit.last() & (without_limit.discount == 0).all()
        truncated = timestep.last() & ~terminated
        extras = dict(timestep.extras)
        return state, _plain(timestep.observation), timestep.reward, terminated, truncated, extras

    observations, actions = map(jumanji_specs_to_gym_spaces, (env.observation_spec, env.action_spec))
    name = f"jumanji/{type(env.unwrapped).__name__}"
    return Interface(reset, step, observations, actions, name, render=partial(_drawn, env))


def _drawn(env: Any, state: Any) -> Any:
    """Return a frame, which Jumanji's viewers return only if they were made to."""
    frame = env.render(state)
    if frame is None:
        what = f"{type(env.unwrapped).__name__} draws on the screen and returns no frame"
        hint = 'make it with a viewer whose render_mode is "rgb_array"; not all of Jumanji\'s return frames'
        raise UnsupportedError(what, hint)
    return frame


def _plain(obs: Any) -> Any:
    """Return an observation as arrays in dicts."""
    if hasattr(obs, "_asdict"):
        return {key: _plain(value) for key, value in obs._asdict().items()}
    if hasattr(obs, "__dataclass_fields__"):
        return {key: _plain(getattr(obs, key)) for key in obs.__dataclass_fields__}
    return obs
