"""Environments by their ids, as Gymnasium makes them; what cannot be made is said in one line."""

from __future__ import annotations

import importlib
import sys
from argparse import ArgumentParser, ArgumentTypeError
from difflib import get_close_matches
from typing import Any

import arrayferry
from arrayferry.cli.exits import UsageError

__all__ = ["add_environment", "add_target", "count", "default_target", "make"]

# Namespaces whose environments are registered only when their package is imported.
_PACKAGES = {"ALE": "ale_py"}


def add_environment(parser: ArgumentParser, default: str | None = None) -> None:
    """The arguments that say which environment."""
    note = f" (if none is given: {default})" if default else ""
    parser.add_argument(
        "env_id",
        metavar="ENV_ID",
        nargs="?" if default else None,
        default=default,
        help=f"CartPole-v1, or module:EnvId for one that a module registers{note}",
    )
    parser.add_argument("--vector", metavar="N", type=count, help="a vector environment of N")


def add_target(parser: ArgumentParser, *, device: bool = True) -> None:
    """The arguments that say which framework, and where its arrays go."""
    parser.add_argument("--to", metavar="FRAMEWORK", help="the agent's framework (default: torch, if there)")
    if device:
        parser.add_argument("--device", help="where the agent's arrays go")


def count(text: str) -> int:
    """A number of things, at least one; for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not 1 or more")
    return int(text)


def default_target() -> str:
    """The first framework that is not the environments' own, if one is installed."""
    return next((name for name in arrayferry.frameworks() if name != "numpy"), "numpy")


def make(env_id: str, vector: int | None = None, **options: Any) -> Any:
    """The environment of this id; a vector of them if `vector` is given."""
    import gymnasium as gym

    if "" not in sys.path:  # a module beside the user, as with `python -m`
        sys.path.insert(0, "")
    module, _, name = env_id.rpartition(":")
    if module:
        _load(module)
    try:
        return gym.make_vec(name, num_envs=vector, **options) if vector else gym.make(name, **options)
    except gym.error.UnregisteredEnv as error:
        raise UsageError(_what_was_meant(name)) from error
    except (gym.error.Error, ImportError) as error:
        text = " ".join(str(error).split())
        raise UsageError(f"{env_id} cannot be made: {text}") from error


def _load(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        hint = "is it installed, and spelt right?" if missing == module else f"{module} needs it"
        if module.endswith(".py"):
            missing, hint = module, f"a module is named without .py: {module.removesuffix('.py')}"
        raise UsageError(f"there is no module {missing!r}: {hint}") from error
    except Exception as error:  # it is not ours
        raise UsageError(f"{module} cannot be imported: {type(error).__name__}: {error}") from error


def _what_was_meant(name: str) -> str:
    import gymnasium as gym

    what = f"there is no environment {name!r}"
    package = _PACKAGES.get(name.partition("/")[0])
    if package and package not in sys.modules:
        return f"{what}: write {package}:{name}, with {package} installed"
    by_lower_case = {known.lower(): known for known in gym.registry}
    close = get_close_matches(name.lower(), by_lower_case, 3, cutoff=0.7)
    if close:
        return f"{what}: did you mean {' or '.join(by_lower_case[one] for one in close)}?"
    return f"{what}: if a package registers it, write package:{name}"
