"""Brax and MuJoCo Playground, which have the same interface: `reset(key)` and `step(state, action)`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from arrayferry.envs._interface import Interface, layers, without
from arrayferry.envs.adapters import is_named
from arrayferry.errors import UnsupportedError

__all__ = ["interface", "playground"]

# Batching and resetting are done here. Brax's and Playground's own resets go back to a cached first state.
_BATCHING = ("brax:VmapWrapper",)
_RESETTING = ("brax:AutoResetWrapper", "mujoco_playground:BraxAutoResetWrapper")
_RANDOMIZING = (
    "brax:DomainRandomizationVmapWrapper",
    "mujoco_playground:BraxDomainRandomizationVmapWrapper",
)


def interface(env: Any, params: Any) -> Interface:
    """Describe an environment from `get_environment` or `create`; its batch size, if any, is the default."""
    sizes = [layer.batch_size for layer in layers(env, "env") if is_named(layer, *_BATCHING)]
    if any(is_named(layer, *_RANDOMIZING) for layer in layers(env, "env")):
        what = f"{type(env).__name__} randomizes its own batch of models"
        raise UnsupportedError(what, "pass the environment before it is wrapped, and randomize in its reset")
    env = without(env, "env", *_BATCHING, *_RESETTING)

    def reset(key: Any) -> tuple[Any, Any, dict[str, Any]]:
        state = env.reset(key)
        return state, _plain(state.obs), _info(state)

    def step(key: Any, state: Any, action: Any) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        state = env.step(state, action)
        truncated = state.info.get("truncation", 0.0)  # from an EpisodeWrapper, which sets `done` as well
        return state, _plain(state.obs), state.reward, state.done > truncated, truncated, _info(state)

    inner = env.unwrapped
    return Interface(
        reset,
        step,
        None,
        spaces.Box(-1, 1, (env.action_size,), np.float32),
        name=f"brax/{type(inner).__name__}",
        render=_drawing(inner),
        num_envs=sizes[0] if sizes else None,
    )


def playground(env: Any, params: Any) -> Interface:
    """Describe an environment of MuJoCo Playground; its episodes are as long as its configuration says."""
    has_limit = any(is_named(layer, "brax:EpisodeWrapper") for layer in layers(env, "env"))
    length = getattr(getattr(env.unwrapped, "_config", None), "episode_length", None)
    name = f"mujoco_playground/{type(env.unwrapped).__name__}"
    return replace(interface(env, params), name=name, max_episode_steps=None if has_limit else length)


def _plain(obs: Any) -> Any:
    return dict(obs) if hasattr(obs, "keys") else obs


def _info(state: Any) -> dict[str, Any]:
    """Return metrics and info together, as Brax's own adapter for Gym does."""
    return {**state.metrics, **state.info}


def _drawing(inner: Any) -> Any:
    """Return a function that draws a state with MuJoCo, which needs off-screen rendering."""
    if hasattr(inner, "mj_model"):
        return lambda state: inner.render(state)
    if hasattr(inner, "sys"):
        return lambda state: inner.render(state.pipeline_state)
    return None
