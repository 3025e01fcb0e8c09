"""arrayferry: any reinforcement-learning environment meets any array framework.

>>> import arrayferry, gymnasium as gym
>>> env = arrayferry.wrap(gym.make("CartPole-v1"), "torch")
>>> env.reset(seed=123)
(tensor([ 0.0182, -0.0446, -0.0280, -0.0316]), {})
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from arrayferry import _frameworks as _frameworks  # registers the frameworks
from arrayferry._core.containers import register_container
from arrayferry._core.convert import Converter, convert, register_leaf
from arrayferry._core.framework import Framework, Source, Target
from arrayferry._core.registry import frameworks, register_framework
from arrayferry.errors import FerryError

if TYPE_CHECKING:
    from arrayferry import envs, errors, learners, sanitizer, scale, spaces, testing, wrappers
    from arrayferry._explain import explain
    from arrayferry._in_jit import in_jit
    from arrayferry.sanitizer import findings, sanitize
    from arrayferry.sanitizer.driver import check
    from arrayferry.wrappers import wrap

__version__ = "0.1.0"

# The verbs; what is supported, and how to extend it; what can go wrong; the submodules.
__all__ = ["wrap", "convert", "Converter", "explain", "check", "sanitize", "findings", "in_jit"]
__all__ += ["frameworks", "Framework", "Source", "Target"]
__all__ += ["register_framework", "register_container", "register_leaf", "FerryError"]
__all__ += ["envs", "errors", "learners", "sanitizer", "scale", "spaces", "testing", "wrappers"]

# These need Gymnasium, which takes longer to import than all the rest, so they are imported on first use.
_LAZY = {
    "wrap": "wrappers",
    "explain": "_explain",
    "check": "sanitizer.driver",
    "sanitize": "sanitizer",
    "findings": "sanitizer",
    "in_jit": "_in_jit",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"arrayferry.{_LAZY[name]}"), name)
    if name in __all__:  # a submodule
        return import_module(f"arrayferry.{name}")
    raise AttributeError(f"module 'arrayferry' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
