"""The environments of other packages that `wrap` takes, recognised without importing those packages.

A class is named `"package:Class"`: the top-level package that defines it, and its name. Subclasses are found
through their bases, wherever they are defined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

__all__ = ["Kind", "find_kind", "register_kind", "resolve"]


@dataclass(frozen=True)
class Kind:
    """What `wrap` does with the environments of a class. Functions are named `"module:function"`, or given.

    Attributes:
        adapt: `adapt(env, num_envs)` returns a Gymnasium environment, which is then wrapped as usual; single
            if `num_envs` is None.
        wrapper: the wrapper class that takes such an environment as it is.
        hint: what to do instead, if `wrap` refuses it.
    """

    adapt: str | Callable[[Any, int | None], Any] | None = None
    wrapper: str | Callable[..., Any] | None = None
    hint: str | None = None


_MANY_AGENTS = "num_envs is for environments written in JAX: leave it out"

_KINDS: dict[str | type, Kind] = {
    "pettingzoo:AECEnv": Kind(wrapper="arrayferry.wrappers.pettingzoo:AECArrayConversion", hint=_MANY_AGENTS),
    "pettingzoo:ParallelEnv": Kind(
        wrapper="arrayferry.wrappers.pettingzoo:ParallelArrayConversion", hint=_MANY_AGENTS
    ),
}


def register_kind(of: str | type, kind: Kind) -> None:
    """Let `wrap` take the environments of a class, given by its name or itself."""
    _KINDS[of] = kind


def find_kind(env: Any) -> Kind | None:
    """Return what is known of an environment's class, or of the first item of a pair `(env, params)`."""
    if type(env) is tuple and len(env) == 2:
        env = env[0]
    for base in type(env).__mro__:
        kind = _KINDS.get(base) or _KINDS.get(f"{base.__module__.partition('.')[0]}:{base.__name__}")
        if kind is not None:
            return kind
    return None


def resolve(function: str | Callable[..., Any]) -> Callable[..., Any]:
    """Import a function that is named `"module:function"`."""
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
