"""The arguments that name an environment and a framework, and environments made from them."""

from __future__ import annotations

import importlib
import sys
from argparse import ArgumentParser, ArgumentTypeError
from difflib import get_close_matches
from types import ModuleType
from typing import Any

import gymnasium as gym

import arrayferry
from arrayferry.cli.exits import UsageError

__all__ = ["add_environment", "add_target", "count", "default_target", "make", "title_of"]

# Namespaces whose environments are registered when their package is imported.
_PACKAGES = {"ALE": "ale_py"}


def add_environment(parser: ArgumentParser, default: str | None = None) -> None:
    """Add the arguments that name the environment."""
    note = f" (default: {default})" if default else ""
    parser.add_argument(
        "env",
        metavar="ENV",
        nargs="?" if default else None,
        default=default,
        help=f"an id such as CartPole-v1, module:id to import the module first, or module:Class{note}",
    )
    parser.add_argument("--vector", metavar="N", type=count, help="make a vector environment of N")


def add_target(parser: ArgumentParser, *, device: bool = True) -> None:
    """Add the arguments that name the agent's framework and device."""
    parser.add_argument(
        "--to", metavar="FRAMEWORK", help="the agent's framework (default: torch if installed)"
    )
    if device:
        parser.add_argument("--device", help="the device of the agent's arrays")


def count(text: str) -> int:
    """Return a number of at least 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def default_target() -> str:
    """Return the first installed framework other than NumPy, which most environments use themselves."""
    return next((name for name in arrayferry.frameworks() if name != "numpy"), "numpy")


def title_of(env: str, vector: int | None, to: str) -> str:
    """Return the heading for an environment on its way to a framework."""
    return f"{env}{f' x {vector}' if vector else ''} to {to}"


def make(env: str, vector: int | None = None) -> Any:
    """Make the environment that an argument names; a vector environment if `vector` is given."""
    if "" not in sys.path:  # find modules in the current folder, as `python -m` does
        sys.path.insert(0, "")
    module, _, name = env.rpartition(":")
    factory = getattr(_load(module), name, None) if module else None
    if factory is not None and name not in gym.registry:
        if not callable(factory):
            raise UsageError(f"{env} is neither an environment class nor a function that makes one")
        factories: list[Any] = [factory] * (vector or 1)
        return gym.vector.SyncVectorEnv(factories) if vector else factory()
    try:
        return gym.make_vec(name, num_envs=vector) if vector else gym.make(name)
    except gym.error.UnregisteredEnv as error:
        raise UsageError(_suggestion(name)) from error
    except (gym.error.Error, ImportError) as error:
        text = " ".join(str(error).split())
        raise UsageError(f"{env} cannot be made: {text}") from error


def _load(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:  # whatever the user's module raises
        raise UsageError(f"{module} cannot be imported: {type(error).__name__}: {error}") from error


def _suggestion(name: str) -> str:
    what = f"there is no environment {name!r}"
    package = _PACKAGES.get(name.partition("/")[0])
    if package and package not in sys.modules:
        return f"{what}: install {package} and write {package}:{name}"
    by_lower_case = {known.lower(): known for known in gym.registry}
    close = get_close_matches(name.lower(), by_lower_case, 3, cutoff=0.7)
    if close:
        return f"{what}: did you mean {' or '.join(by_lower_case[one] for one in close)}?"
    return f"{what}: if a package registers it, write package:{name}"
