"""The arguments of vector environments with workers, and which of them are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv

from arrayferry._core.messages import with_article
from arrayferry.errors import OptionError, UnsupportedError, WorkerError

__all__ = ["LONGEST_WAIT", "check_spaces", "make_env", "seconds", "validate_env_fns"]

# The longest that we ask the system to wait: 10 days.
LONGEST_WAIT = 864_000.0


def validate_env_fns(env_fns: Any) -> int:
    """Return how many functions that make environments there are; refuse anything but a list of them."""
    hint = "pass a list of functions that make one environment each: [lambda: gymnasium.make(...)] * 8"
    if not isinstance(env_fns, Sequence):
        raise UnsupportedError(f"env_fns is {with_article(type(env_fns).__name__)}", hint)
    for index, env_fn in enumerate(env_fns):
        if not callable(env_fn):
            raise UnsupportedError(f"env_fns[{index}] is {with_article(type(env_fn).__name__)}", hint)
    if not env_fns:
        raise OptionError("env_fns is empty", hint)
    return len(env_fns)


def seconds(name: str, value: Any, or_zero: bool = False) -> float:
    """Return an option that is a time in seconds, cut to the longest that we ask the system to wait."""
    if not isinstance(value, (int, float, np.number)) or not (value > 0 or (or_zero and value == 0)):
        raise OptionError(f"{name}={value!r} is not valid", "pass seconds, or math.inf to wait forever")
    return min(float(value), LONGEST_WAIT)


def make_env(env_fn: Callable[[], gym.Env[Any, Any]]) -> gym.Env[Any, Any]:
    """Return the environment that a function makes; refuse anything else."""
    env: Any = env_fn()
    if isinstance(env, VectorEnv) or not isinstance(env, gym.Env):
        made = with_article(type(env).__name__)
        what = f"one of env_fns made {made}, which is not a single Gymnasium environment"
        raise UnsupportedError(what, "let each return a gymnasium.Env, such as gymnasium.make(...) returns")
    return env


def check_spaces(index: int, found: Sequence[Any], expected: Sequence[Any], first: int = 0) -> None:
    """Refuse an environment whose observation or action space differs from that of the first."""
    for name, theirs, mine in zip(("observation", "action"), found, expected):
        if theirs != mine:
            what = f"environment {index} has the {name} space {theirs}, but environment {first} has {mine}"
            raise WorkerError(what, "all environments of a vector have the same spaces")
