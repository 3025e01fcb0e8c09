"""Whom a trial is about: this library, or Gymnasium's own conversion in the same place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

import arrayferry


@dataclass(frozen=True)
class Library:
    """A converter and a wrapper.

    Attributes:
        name: as on the command line.
        convert: `(value, target)` to the value in the target framework, which is named.
        wrap: `(env, source, target, device)` to an environment of one framework for an agent of the other.
    """

    name: str
    convert: Callable[[Any, str], Any]
    wrap: Callable[..., Any]


def _wrap(env: Any, source: str, target: str, device: Any = None) -> Any:
    return arrayferry.wrap(env, target, device, env_xp=source)


@cache
def _namespace(name: str) -> Any:
    """What Gymnasium takes for a framework."""
    from gymnasium.wrappers.array_conversion import module_namespace

    return module_namespace(import_module("jax.numpy" if name == "jax" else name))


def _their_convert(value: Any, target: str) -> Any:
    from gymnasium.wrappers.array_conversion import array_conversion

    return array_conversion(value, _namespace(target))


def _their_wrap(env: Any, source: str, target: str, device: Any = None) -> Any:
    kind = gym.wrappers.vector if isinstance(env, VectorEnv) else gym.wrappers
    return kind.ArrayConversion(
        env, env_xp=_namespace(source), target_xp=_namespace(target), target_device=device
    )


ARRAYFERRY = Library("arrayferry", arrayferry.convert, _wrap)
GYMNASIUM = Library("gymnasium", _their_convert, _their_wrap)
LIBRARIES = {library.name: library for library in (ARRAYFERRY, GYMNASIUM)}
