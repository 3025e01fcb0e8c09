"""The newest state of an environment, the only one that its next step accepts, whoever steps it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np
from gymnasium.vector import SyncVectorEnv

from arrayferry._core.registry import describe
from arrayferry._in_jit.declared import Array, Leaf
from arrayferry.errors import UnsupportedError
from arrayferry.wrappers._forwarding import CARRYING

__all__ = ["STATE", "Turns", "refuse_state", "seed_of"]

# Whose it is, and the number of calls that have changed the environment, in two words. Zeros are no state.
STATE = Leaf("state", (3,), np.dtype("uint32"))
_number = itertools.count(1)

# The methods that change an environment.
_CHANGING = ("step", "reset", *CARRYING, "call", "call_async")


def refuse_state(is_other: bool) -> NoReturn:
    """Refuse a state of another environment, or one that is not the newest."""
    other = "belongs to another environment, or to another in_jit of this one"
    used = "was used already, or the environment was reset or stepped since, here or by other means"
    what = f"this state {other if is_other else used}"
    hint = "go on from the state that the last reset or step returned; make an environment for each rollout"
    raise UnsupportedError(what, hint, "state")


def seed_of(key: Any) -> Any:
    """Return the seed that a key gives."""
    import jax

    try:
        return jax.random.bits(key, (), "uint32") >> 1
    except (TypeError, ValueError) as error:
        what = f"{describe(key)} is not a key, from which the environment's seed is made"
        raise UnsupportedError(what, "pass one key, such as jax.random.key(0)", "key") from error


class Count:
    """Counts the calls that changed an environment: by any `in_jit`, through any wrapper, or directly.

    Attributes:
        calls: how many have returned; one that raises has changed nothing that counts.
        lock: held during the calls of compiled code.
    """

    def __init__(self) -> None:
        self.calls, self.lock = 0, threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Count, ()  # a copy of the environment is another environment


class Turns:
    """The states of one `in_jit`, of which at most one is the newest of its environment.

    Args:
        env: the environment; those inside its wrappers are counted from now on.

    Attributes:
        number: of this `in_jit`.
        count: of the environment's changes.
        lock: the count's.
    """

    def __init__(self, env: Any) -> None:
        self.number, self.count = next(_number), _count_of(env.unwrapped)
        self.lock = self.count.lock

    def check(self, state: Array) -> None:
        """Refuse any state but the newest."""
        number, high, low = state.tolist()
        if number != self.number or high << 32 | low != self.count.calls:
            refuse_state(is_other=number != self.number)

    def end(self, state: Array) -> None:
        """End a turn, and write the newest state."""
        self.count.calls += 1  # in case no call has reached an environment that counts it
        state[0], (state[1], state[2]) = self.number, divmod(self.count.calls, 2**32)


def _count_of(base: Any) -> Count:
    known: Count | None = vars(base).get("_in_jit_count")
    if known is not None:
        return known
    vars(base)["_in_jit_count"] = count = Count()  # past a `__setattr__` that refuses
    for env in (base, *(env.unwrapped for env in (base.envs if isinstance(base, SyncVectorEnv) else ()))):
        for name in _CHANGING:
            if callable(getattr(type(env), name, None)):
                vars(env)[name] = partial(_counted, count, getattr(env, name))
    return count


def _counted(count: Count, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    result = method(*args, **kwargs)
    count.calls += 1
    return result
