"""arrayferry: any reinforcement-learning environment meets any array framework.

>>> import arrayferry, gymnasium as gym
>>> env = arrayferry.wrap(gym.make("CartPole-v1"), "torch")
>>> env.reset(seed=123)
(tensor([ 0.0182, -0.0446, -0.0280, -0.0316]), {})
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from arrayferry import _frameworks  # noqa: F401  (they register themselves)
from arrayferry._core.containers import register_container
from arrayferry._core.convert import Converter, convert, register_leaf
from arrayferry._core.framework import Framework, register_framework
from arrayferry._core.inventory import FrameworkInfo, frameworks
from arrayferry.errors import (
    CircularError,
    DeviceError,
    FerryError,
    KeptWarning,
    NarrowingError,
    NotInstalledError,
    OptionError,
    SharingError,
    TransferError,
    UnknownFrameworkError,
    UnsupportedError,
)
from arrayferry.pairs import (
    array_conversion,
    jax_to_numpy,
    jax_to_torch,
    numpy_to_jax,
    numpy_to_torch,
    torch_to_jax,
    torch_to_numpy,
)

if TYPE_CHECKING:
    from arrayferry import sanitizer, spaces, testing, wrappers
    from arrayferry._explain import Explanation, explain
    from arrayferry.sanitizer import Finding, Report, SanitizerError, SanitizerWarning, findings, sanitize
    from arrayferry.sanitizer.check import check
    from arrayferry.wrappers import wrap

__version__ = "0.1.0"

__all__ = [
    # the verbs
    "wrap",
    "convert",
    "Converter",
    "explain",
    "Explanation",
    # the pairs that users know by name
    "array_conversion",
    "jax_to_numpy",
    "jax_to_torch",
    "numpy_to_jax",
    "numpy_to_torch",
    "torch_to_jax",
    "torch_to_numpy",
    # what goes wrong between an environment and its agent
    "check",
    "sanitize",
    "findings",
    "Finding",
    "Report",
    "SanitizerError",
    "SanitizerWarning",
    # what there is, and how to add to it
    "Framework",
    "FrameworkInfo",
    "frameworks",
    "register_container",
    "register_framework",
    "register_leaf",
    # what can go wrong
    "CircularError",
    "DeviceError",
    "FerryError",
    "KeptWarning",
    "NarrowingError",
    "NotInstalledError",
    "OptionError",
    "SharingError",
    "TransferError",
    "UnknownFrameworkError",
    "UnsupportedError",
    # the rooms
    "sanitizer",
    "spaces",
    "testing",
    "wrappers",
]


def __getattr__(name: str) -> Any:
    # These need Gymnasium, which takes longer to import than all the rest: so only when they are used.
    if name == "wrap":
        return import_module("arrayferry.wrappers").wrap
    if name in ("explain", "Explanation"):
        return getattr(import_module("arrayferry._explain"), name)
    if name == "check":
        return import_module("arrayferry.sanitizer.check").check
    if name in ("Finding", "Report", "SanitizerError", "SanitizerWarning", "findings", "sanitize"):
        return getattr(import_module("arrayferry.sanitizer"), name)
    if name in ("sanitizer", "spaces", "testing", "wrappers"):
        return import_module(f"arrayferry.{name}")
    raise AttributeError(f"module 'arrayferry' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
