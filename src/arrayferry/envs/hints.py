"""What was passed instead of an environment, and what to do about it."""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

import gymnasium as gym

from arrayferry._core.messages import with_article
from arrayferry._core.registry import registered
from arrayferry.envs.adapters import UNKNOWN, adapter_of, is_known_class, parts_of
from arrayferry.errors import UnsupportedError

__all__ = ["describe_argument", "hint_for", "means_environment", "refuse_options"]


def describe_argument(value: Any) -> str:
    """Describe, for a message, what was passed instead of an environment."""
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    return repr(value) if isinstance(value, str) else with_article(type(value).__qualname__)


def refuse_options(env: Any, **options: Any) -> None:
    """Refuse options of an environment that is made already; None asks for nothing."""
    env, _ = parts_of(env)
    for name, value in options.items():
        if value is not None:
            cls = type(getattr(env, "unwrapped", env))
            known = getattr(getattr(env, "spec", None), "id", cls.__qualname__)
            is_id = name == "num_envs" and adapter_of(env).kind == "single" and isinstance(env, gym.Env)
            hint = f"pass gymnasium.make_vec(id, num_envs={value})" if is_id else f"leave {name} out"
            raise UnsupportedError(f"{name}={value}, but {known} is made already", hint)


def hint_for(value: Any, wrapper: str = "") -> str:
    """Return what to do with something that a wrapper does not take; `wrapper` is the one for other kinds."""
    if wrapper and adapter_of(value) is not UNKNOWN:
        return f"use {wrapper}, or arrayferry.wrap, which chooses the right one"
    if isinstance(value, FunctionType):
        return "call it first, if it makes an environment"
    if isinstance(value, (list, tuple)) and any(isinstance(item, FunctionType) for item in value):
        return "if they make environments, make a vector of them: gymnasium.vector.SyncVectorEnv([...])"
    return _how_to_make(value) or adapter_of(value).hint


def _how_to_make(value: Any) -> str | None:
    """Return how to make an environment from something that is none; None if nothing is known."""
    if isinstance(value, str):
        swapped = f'the environment comes first: wrap(env, "{value}")'
        return swapped if value in registered() else f"make it first, and pass gymnasium.make({value!r})"
    if isinstance(value, type) and is_known_class(value):
        return f"pass an instance, not the class: {value.__name__}(...)"
    items = value if isinstance(value, (list, tuple)) and adapter_of(value) is UNKNOWN else ()
    if any(adapter_of(item) is not UNKNOWN for item in items):
        many = "gymnasium.vector.SyncVectorEnv([make_one, ...]), from functions that make one each"
        return f"wrap each of them, or make a vector environment: {many}"
    return None


def means_environment(value: Any) -> bool:
    """Return whether a value is an environment of any known kind, or something to make one from.

    A text is, if it is the id of a registered environment, with or without its version, or looks like one.
    """
    if isinstance(value, str):
        is_known = any(value in (spec.id, spec.id.rpartition("-v")[0]) for spec in gym.registry.values())
        return is_known or re.search(r"-v\d+$", value) is not None
    return adapter_of(value) is not UNKNOWN or _how_to_make(value) is not None
