"""The environments of other packages that `wrap` takes, recognised without importing those packages.

A class is named `"package:Class"`: the top-level package that defines it, and its name. Subclasses are found
through their bases, wherever they are defined.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType
from typing import Any

import gymnasium as gym

from arrayferry._core.messages import with_article
from arrayferry._core.registry import registered

__all__ = [
    "Kind",
    "find_kind",
    "hint_for",
    "how_to_make",
    "describe_argument",
    "is_registered",
    "means_environment",
    "register_kind",
    "resolve",
]


@dataclass(frozen=True)
class Kind:
    """What `wrap` does with the environments of a class. Functions may be named, as `"module:function"`.

    Attributes:
        adapt: `adapt(env, num_envs)` returns a Gymnasium environment, which is then wrapped as usual; single
            if `num_envs` is None.
        interface: `interface(env, params)` describes an environment that is written in JAX, for
            `arrayferry.envs.as_gymnasium`.
        wrapper: the wrapper class that takes such an environment as it is.
        hint: what to do instead, if `wrap` refuses it; or, with `adapt`, if it is inside other wrappers.
    """

    adapt: str | Callable[[Any, int | None], Any] | None = None
    interface: str | Callable[[Any, Any], Any] | None = None
    wrapper: str | Callable[..., Any] | None = None
    hint: str | None = None


def _jax(interface: str) -> Kind:
    return Kind(adapt="arrayferry.envs:_adapt", interface=f"arrayferry.envs.{interface}")


# What to do instead, where that takes more than a few words.
_OLD_GYM = (
    "it is an environment of gym, Gymnasium's predecessor: wrap it in shimmy.GymV26CompatibilityV0(env=env), "
    "or shimmy.GymV21CompatibilityV0 for gym before 0.26 (pip install shimmy)"
)
_VEC_ENV = (
    "it already returns what Stable-Baselines3 takes: wrap the environments that it is made of, as in "
    "make_vec_env(lambda: arrayferry.wrap(gymnasium.make(...), ...)); or wrap gymnasium.make_vec(...)"
)
_TORCHRL = (
    "it already returns tensors: wrap the environment that it is made of, as in "
    'torchrl.envs.GymWrapper(arrayferry.wrap(gymnasium.make(...), "torch"))'
)

_INSIDE = "pass the environment inside it, and put Gymnasium's wrappers or ours around what wrap returns"
_LOSES_STEPS = (
    "it discards the steps of all other environments when it resets one: wrap it before other wrappers"
)

# One row per class; those that are only refused come last.
_KINDS: dict[str | type, Kind] = {
    "pettingzoo:AECEnv": Kind(wrapper="arrayferry.wrappers.pettingzoo:AECArrayConversion"),
    "pettingzoo:ParallelEnv": Kind(wrapper="arrayferry.wrappers.pettingzoo:ParallelArrayConversion"),
    "dm_env:Environment": Kind(adapt="arrayferry.envs.dm_env:as_gymnasium"),
    # written in JAX
    "gymnax:Environment": _jax("gymnax:interface"),
    "gymnax:GymnaxWrapper": Kind(hint=_INSIDE),
    "brax:Env": _jax("brax:interface"),
    "mujoco_playground:MjxEnv": _jax("brax:playground"),
    "jumanji:Environment": _jax("jumanji:interface"),
    "pgx:Env": _jax("pgx:interface"),
    "xminigrid:Environment": _jax("xminigrid:interface"),
    "gymnasium:FuncEnv": _jax("func_env:interface"),
    "gymnasium:FunctionalJaxVectorEnv": Kind(adapt="arrayferry.envs.func_env:as_fused", hint=_LOSES_STEPS),
    "jaxmarl:MultiAgentEnv": _jax("jaxmarl:interface"),
    "jaxmarl:JaxMARLWrapper": Kind(hint=_INSIDE),
    # refused
    "gym:Env": Kind(hint=_OLD_GYM),
    "gymnasium:EnvSpec": Kind(hint="make it first, and pass gymnasium.make(spec)"),
    "stable_baselines3:VecEnv": Kind(hint=_VEC_ENV),
    "torchrl:EnvBase": Kind(hint=_TORCHRL),
}


def register_kind(of: str | type, kind: Kind) -> None:
    """Let `wrap` take the environments of a class, given by name or as the class itself."""
    _KINDS[of] = kind


def is_registered(of: str | type) -> bool:
    """Return whether something is known about this very class, given by name or as the class itself."""
    return of in _KINDS or (isinstance(of, type) and _name_of(of) in _KINDS)


def find_kind(env: Any) -> Kind | None:
    """Return what is known about the class of an environment, or of the one in a pair `(env, params)`."""
    if type(env) is tuple and len(env) == 2:
        env = env[0]
    return _kind_of(type(env))


def _kind_of(cls: type) -> Kind | None:
    for base in cls.__mro__:
        kind = _KINDS.get(base) or _KINDS.get(_name_of(base))
        if kind is not None:
            return kind
    return None


def _name_of(cls: type) -> str:
    return f"{cls.__module__.partition('.')[0]}:{cls.__name__}"


def describe_argument(value: Any) -> str:
    """Describe, for a message, what was passed instead of an environment."""
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    return repr(value) if isinstance(value, str) else with_article(type(value).__qualname__)


def how_to_make(value: Any) -> str | None:
    """Return what to do with something that `wrap` does not take as it is; None if nothing is known."""
    if (kind := find_kind(value)) is not None:
        return kind.hint
    if isinstance(value, str) and value in registered():
        return f'the environment comes first: wrap(env, "{value}")'
    if isinstance(value, str):
        return f"make it first, and pass gymnasium.make({value!r})"
    if isinstance(value, type) and _is_environment(value):
        return f"pass an instance, not the class: {value.__name__}(...)"
    if isinstance(value, (list, tuple)) and any(_is_environment(type(one)) for one in value):
        many = "gymnasium.vector.SyncVectorEnv([make_one, ...]), from functions that make one each"
        return f"wrap each of them, or make a vector environment: {many}"
    return None


def hint_for(value: Any, wrapper: str = "") -> str:
    """Return what to do with something that a wrapper does not take; `wrapper` is the one for other kinds."""
    if wrapper and _is_environment(type(value)):
        return f"use {wrapper}, or arrayferry.wrap, which chooses the right one"
    if (hint := how_to_make(value)) is not None:
        return hint
    if isinstance(value, FunctionType):
        return "call it first, if it makes an environment"
    if isinstance(value, (list, tuple)) and any(isinstance(one, FunctionType) for one in value):
        return "if they make environments, make a vector of them: gymnasium.vector.SyncVectorEnv([...])"
    return "pass a gymnasium.Env or a gymnasium.vector.VectorEnv, such as gymnasium.make(...) returns"


def means_environment(value: Any) -> bool:
    """Return whether a value is an environment of any known kind, or something to make one from.

    A text is, if it is the id of a registered environment, with or without its version, or looks like one.
    """
    if isinstance(value, str):
        is_known = any(value in (spec.id, spec.id.rpartition("-v")[0]) for spec in gym.registry.values())
        return is_known or re.search(r"-v\d+$", value) is not None
    return _is_environment(type(value)) or find_kind(value) is not None or how_to_make(value) is not None


def _is_environment(cls: type) -> bool:
    return issubclass(cls, (gym.Env, gym.vector.VectorEnv)) or _kind_of(cls) is not None


def resolve(function: str | Callable[..., Any]) -> Callable[..., Any]:
    """Import a function that is named `"module:function"`."""
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
