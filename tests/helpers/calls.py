"""How many functions are called: the same on every machine, busy or not."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any

import gymnasium as gym
import numpy as np

import arrayferry
from helpers.envs import Observed, ZeroVector


def new() -> Any:
    return np.zeros(4, np.float32)


def dict_of(leaves: int) -> Callable[[], dict[str, Any]]:
    return lambda: {f"k{i}": new() for i in range(leaves)}


ENVS: dict[str, Callable[[], Any]] = {
    "Box(4)": lambda: Observed(new),
    "Dict of 8": lambda: Observed(dict_of(8)),
    "vector 64": ZeroVector,
}


def calls(work: Callable[[], Any]) -> int:
    """Return how many functions, of Python and of C, a piece of work calls. What C calls is not counted."""
    found = [0]

    def count(frame: FrameType, event: str, argument: Any) -> None:
        found[0] += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # a collection calls finalizers, and a function of JAX
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return found[0]


def calls_of_a_step(env: Any, action: Any) -> int:
    env.reset()
    for _ in range(20):  # until all is decided
        env.step(action)
    return min(calls(lambda: env.step(action)) for _ in range(5))


def count_steps(name: str) -> dict[str, dict[str, int]]:
    """Return the calls of a step to a framework, by environment and by who converts."""
    return {kind: _count_steps(name, make, "vector" in kind) for kind, make in ENVS.items()}


def _count_steps(name: str, make: Callable[[], Any], is_vector: bool) -> dict[str, int]:
    action: Any = np.zeros(64, np.int64) if is_vector else np.int64(1)
    converted = arrayferry.convert(action, name)
    envs = {"arrayferry": arrayferry.wrap(make(), name)}
    # Gymnasium 1.2 is the first with an ArrayConversion.
    theirs = getattr(gym.wrappers.vector if is_vector else gym.wrappers, "ArrayConversion", None)
    if theirs is not None and name != "numpy":
        module = import_module({"torch": "torch", "jax": "jax.numpy"}[name])
        envs["Gymnasium"] = theirs(make(), env_xp=np, target_xp=module)
    counts = {by: calls_of_a_step(env, converted) for by, env in envs.items()}
    return {"bare": calls_of_a_step(make(), action), **counts}
