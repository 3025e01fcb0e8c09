"""Gymnasium's `FuncEnv`, whose functions JAX can trace."""

from __future__ import annotations

from copy import copy
from typing import Any

from gymnasium.experimental.functional import FuncEnv

from arrayferry.envs._interface import Interface

__all__ = ["interface"]

# What `FuncEnv.transform` replaces with functions that are compiled or see many environments.
_TRANSFORMED = ("initial", "transition", "observation", "reward", "terminal", "state_info", "step_info")


def interface(env: Any, params: Any) -> Interface:
    """Describe a `FuncEnv`; all of its functions get the same key in a step, as in Gymnasium."""
    env = copy(env)
    for name in _TRANSFORMED:
        vars(env).pop(name, None)
    given = () if params is None else (params,)

    def reset(key: Any) -> tuple[Any, Any, dict[str, Any]]:
        state = env.initial(key, *given)
        return state, env.observation(state, key, *given), env.state_info(state, *given)

    def step(key: Any, state: Any, action: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        after = env.transition(state, action, key, *given)
        return (
            after,
            env.observation(after, key, *given),
            env.reward(state, action, after, key, *given),
            env.terminal(after, key, *given),
            False,
            env.transition_info(state, action, after, *given),
        )

    name = type(env).__name__
    return Interface(reset, step, env.observation_space, env.action_space, name, render=_drawing(env, given))


def _drawing(env: Any, given: tuple[Any, ...]) -> Any:
    """Return a function that draws a state, on a screen that is made when first needed."""
    screen: list[Any] = []

    def draw(state: Any) -> Any:
        if not screen:
            screen.append(env.render_init(*given))
        screen[0], frame = env.render_image(state, screen[0], *given)
        return frame

    return None if type(env).render_image is FuncEnv.render_image else draw
