"""The arguments that name an environment and a framework, and environments made from them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym

import arrayferry
from arrayferry.errors import OptionError


def add_environment(parser: ArgumentParser, default: str | None = None, to: str | None = None) -> None:
    """Add the arguments that name the environment, and the agent's framework and device."""
    note = f" (default: {default})" if default else ""
    parser.add_argument(
        "env",
        metavar="ENV",
        nargs="?" if default else None,
        default=default,
        help="an id such as CartPole-v1, module:id to import the module first, or module:Class; "
        f"path/to/file.py is a module too{note}",
    )
    parser.add_argument("--vector", metavar="N", type=count, help="make a vector environment of N")
    to = to or "torch if installed"
    parser.add_argument("--to", metavar="FRAMEWORK", help=f"the agent's framework (default: {to})")
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
    return f"{env}{'' if vector is None else f' x {vector}'} to {to}"


def make(env: str, vector: int | None = None) -> Any:
    """Make the environment that an argument names; a vector environment if `vector` is given."""
    if "" not in sys.path:  # find modules in the current folder, as `python -m` does
        sys.path.insert(0, "")
    module, _, name = env.rpartition(":")
    if module.endswith(".py"):  # a file: it, and what it imports, is found in its folder
        sys.path.insert(0, str(Path(module).parent.resolve()))
        module = Path(module).stem
    try:
        factory: Any = getattr(import_module(module), name, None) if module else None
        if callable(factory) and name not in gym.registry:
            env_fns: list[Any] = [factory]
            return factory() if vector is None else gym.vector.SyncVectorEnv(env_fns * vector)
        return gym.make(name) if vector is None else gym.make_vec(name, num_envs=vector)
    except (gym.error.Error, ImportError) as error:
        hint = ""
        if isinstance(error, (gym.error.NameNotFound, gym.error.NamespaceNotFound)):
            no_class = f"{module} registers no such environment, and has no such class"
            hint = no_class if module else f"if a package registers it, write package:{env}"
        raise OptionError(f"{env} cannot be made: {error}", hint) from error
