"""Gymnasium's `FuncEnv`, and the vector environments that Gymnasium makes from it."""

from __future__ import annotations

from copy import copy
from typing import Any

from gymnasium.experimental.functional import FuncEnv
from gymnasium.vector import AutoresetMode, VectorWrapper

from arrayferry._core.messages import warn_caller
from arrayferry.envs._engine import Engine
from arrayferry.envs._environments import JaxVectorEnv
from arrayferry.envs._interface import Interface
from arrayferry.envs.hints import refuse_options

__all__ = ["interface", "open_fused"]

# What `FuncEnv.transform` replaces with functions that are compiled or see many environments.
_TRANSFORMED = ("initial", "transition", "observation", "reward", "terminal", "state_info", "step_info")


def interface(env: Any, params: Any) -> Interface:
    """Describe a `FuncEnv`; all of its functions get the same key in a step, as in Gymnasium."""
    env = _untransformed(env)
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


def _untransformed(env: Any) -> Any:
    env = copy(env)
    for name in _TRANSFORMED:
        vars(env).pop(name, None)
    return env


def _drawing(env: Any, given: tuple[Any, ...]) -> Any:
    """Return a function that draws a state, on a screen that is made when first needed."""
    screen: list[Any] = []

    def draw(state: Any) -> Any:
        if not screen:
            screen.append(env.render_init(*given))
        screen[0], frame = env.render_image(state, screen[0], *given)
        return frame

    return None if type(env).render_image is FuncEnv.render_image else draw


def open_fused(env: Any, params: Any, num_envs: int | None, autoreset_mode: AutoresetMode | None) -> Any:
    """Return a vector environment that steps a `FunctionalJaxVectorEnv`'s environments in one compiled call.

    Its own step is not compiled, and discards the steps of all other environments whenever one is reset.
    """
    refuse_options(env, num_envs=num_envs, autoreset_mode=autoreset_mode)
    if isinstance(env, VectorWrapper):
        what = f"{type(env.unwrapped).__qualname__}: it discards the steps of all others when it resets one"
        warn_caller(f"{what}: wrap it before other wrappers", UserWarning)
        return env
    mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    limit, render_mode = env.time_limit or None, env.render_mode
    # The functions that Gymnasium has compiled cannot be pickled.
    engine = Engine(_untransformed(env.func_env), env.num_envs, mode, limit)
    fused = JaxVectorEnv(engine, render_mode)
    fused.metadata |= env.metadata
    fused.spec = env.spec
    return fused
