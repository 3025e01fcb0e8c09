"""The newest state of an environment, the only one that its next step accepts, whoever steps it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv

from arrayferry._core.registry import describe
from arrayferry._frameworks.jax import jax
from arrayferry._in_jit.declared import Array, Leaf
from arrayferry.envs.adapters import adapter_of
from arrayferry.errors import UnsupportedError

__all__ = ["STATE", "Turns", "numbers", "seed_of", "turns_of"]

# Whose it is, and the number of calls that have changed the environment, in two words. Zeros are no state.
STATE = Leaf("state", (3,), np.dtype("uint32"))
numbers = itertools.count(1)

# The methods that change an environment, besides those that its adapter has.
_CHANGING = ("step", "reset", "call", "call_async", "run_on")


def seed_of(key: Any) -> Any:
    """Return the seed that a key gives."""
    try:
        return jax.random.bits(key, (), "uint32") >> 1
    except (TypeError, ValueError) as error:
        what = f"{describe(key)} is not a key, from which the environment's seed is made"
        raise UnsupportedError(what, "pass one key, such as jax.random.key(0)", "key") from error


class Turns:
    """Counts the calls that changed an environment: by any `in_jit`, through any wrapper, or directly.

    Attributes:
        calls: how many have returned; one that raises has changed nothing that counts.
        lock: held during the calls of compiled code.
    """

    def __init__(self) -> None:
        self.calls, self.lock = 0, threading.Lock()

    def check(self, state: Array, number: int) -> None:
        """Refuse any state but the newest of the `in_jit` with this number."""
        whose, high, low = state.tolist()
        if whose == number and high << 32 | low == self.calls:
            return
        what = "was used already, or the environment was reset or stepped since, here or by other means"
        if whose != number:
            what = "belongs to another environment, or to another in_jit of this one"
        hint = "go on from the state that the last reset or step returned"
        raise UnsupportedError(f"this state {what}", f"{hint}; make an environment for each rollout", "state")

    def end(self, state: Array, number: int) -> None:
        """End a turn, and write the newest state."""
        self.calls += 1  # in case no call has reached an environment that counts it
        state[0], (state[1], state[2]) = number, divmod(self.calls, 2**32)


def turns_of(base: Any) -> Turns:
    """Return the turns of an environment without wrappers, which are counted from now on."""
    # Past a `__setattr__` that refuses, and not by `vars()`, which makes every attribute slower to read.
    with suppress(AttributeError):
        return object.__getattribute__(base, "_in_jit_turns")  # type: ignore[no-any-return]
    object.__setattr__(base, "_in_jit_turns", turns := Turns())
    for env in (base, *(env.unwrapped for env in (base.envs if isinstance(base, SyncVectorEnv) else ()))):
        names = [*_CHANGING, *adapter_of(env).calls]
        methods = {name: getattr(env, name) for name in names if callable(getattr(type(env), name, None))}
        for name, method in methods.items():
            object.__setattr__(env, name, partial(_counted, turns, method))
        object.__setattr__(env, "__getstate__", partial(_state_of, env, methods))
    return turns


def _state_of(env: Any, methods: dict[str, Callable[..., Any]]) -> Any:
    """Return what copies and pickles of an environment get: it is another one, whose calls nobody counts."""
    get_state = getattr(type(env), "__getstate__", None)  # before Python 3.11, most classes have none
    state = dict(vars(env)) if get_state is None else get_state(env)
    if not isinstance(state, dict):
        return state
    ours = {name for name, method in methods.items() if getattr(method, "__self__", None) is env}
    ours |= {"_in_jit_turns", "__getstate__"}
    kept = {name: value for name, value in state.items() if name not in ours}
    return kept | {name: method for name, method in methods.items() if name in kept}


def _counted(turns: Turns, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    result = method(*args, **kwargs)
    turns.calls += 1
    return result
