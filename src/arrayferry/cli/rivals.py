"""What `bench` compares: the ways to connect an agent of one framework to an environment of another.

Each of them steps an environment of its own, from the same seed and with the same actions.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
from array_api_compat import array_namespace

import arrayferry
from arrayferry.cli.environments import make
from arrayferry.cli.internals import find_framework

__all__ = ["BARE", "BY_HAND", "GYMNASIUM", "OURS", "Trip", "problem_with", "rival"]

BARE, BY_HAND, GYMNASIUM, OURS = "bare", "by hand", "Gymnasium's wrapper", "arrayferry"
_ACTIONS, _SEED = 64, 0

Call = Callable[[Any], Any]
Trip = Callable[[int], "list[float]"]  # take that many steps from the start, return the seconds of each


def rival(name: str, env_name: str, vector: int | None, to: str) -> Trip:
    """Return trips through an environment that is wrapped in the way of this name."""
    env = make(env_name, vector)
    env.action_space.seed(_SEED)
    actions: Any = [env.action_space.sample() for _ in range(_ACTIONS)]
    obs, _ = env.reset(seed=_SEED)
    env_xp = _namespace_of(obs)
    if name != BARE:
        actions = arrayferry.convert(actions, to)
    elif env_xp is not np:
        actions = arrayferry.convert(actions, env_xp)
    if name == BY_HAND:
        env = _ByHand(env, obs, to, vector)
    elif name == GYMNASIUM:
        wrapper: Any = (gym.wrappers.vector if vector else gym.wrappers).ArrayConversion
        env = wrapper(env, env_xp=env_xp, target_xp=find_framework(to).load())
    elif name == OURS:
        env = arrayferry.wrap(env, to)
    return _trip(env, actions, vector)


def problem_with(name: str, env_name: str, vector: int | None, to: str, steps: int = 50) -> str:
    """Return why a rival fails, or an empty string. Try it in another process, which it may crash."""
    code = f"from arrayferry.cli.rivals import rival; rival{name, env_name, vector, to}({steps})"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        return f"the process died of signal {-done.returncode}"
    return f"exit code {done.returncode}\n{done.stderr}".strip().splitlines()[-1] if done.returncode else ""


def _trip(env: Any, actions: list[Any], vector: int | None) -> Trip:
    def trip(steps: int) -> list[float]:
        env.reset(seed=_SEED)
        times = []
        for action in islice(cycle(actions), steps):
            start = perf_counter()
            result = env.step(action)
            times.append(perf_counter() - start)
            if not vector and (result[2] or result[3]):
                env.reset()
        return times

    return trip


def _namespace_of(obs: Any) -> Any:
    """Return the array namespace of the first leaf of an observation; NumPy for a number."""
    while isinstance(obs, (dict, tuple)):
        obs = next(iter(obs.values() if isinstance(obs, dict) else obs))
    try:
        return array_namespace(obs, use_compat=False)
    except TypeError:
        return np


class _ByHand:
    """What an expert writes: one call a leaf, no checks, memory shared if possible, infos left alone."""

    def __init__(self, env: Any, obs: Any, to: str, vector: int | None) -> None:
        rest = np.zeros(1) if _namespace_of(obs) is np else None
        self._env, self._action = env, _each_leaf(env.action_space, _action_call)
        self._obs = _each_leaf(obs, lambda leaf: _array_call(leaf, to))
        self._rest = _array_call(rest, to) if vector else lambda number: number

    def reset(self, **options: Any) -> Any:
        """Start an episode."""
        return self._obs(self._env.reset(**options)[0])

    def step(self, action: Any) -> Any:
        """Take a step."""
        obs, reward, terminated, truncated, info = self._env.step(self._action(action))
        rest = self._rest
        return self._obs(obs), rest(reward), rest(terminated), rest(truncated), info


def _each_leaf(structure: Any, call_for: Callable[[Any], Call]) -> Call:
    """Return a function that converts values built like `structure`, an observation or a space."""
    if isinstance(structure, Mapping):
        calls = {key: _each_leaf(child, call_for) for key, child in structure.items()}
        return lambda value: {key: call(value[key]) for key, call in calls.items()}
    if isinstance(structure, (tuple, gym.spaces.Tuple)):
        each = [_each_leaf(child, call_for) for child in structure]
        return lambda value: tuple(call(child) for call, child in zip(each, value))
    return call_for(structure)


def _action_call(space: Any) -> Call:
    return (lambda action: action.item()) if isinstance(space, gym.spaces.Discrete) else np.asarray


def _array_call(leaf: Any, to: str) -> Call:
    xp: Any = find_framework(to).load()
    call: Call = getattr(xp, "asarray", None) or arrayferry.Converter(to)
    if to == "torch":  # from_numpy is faster, but takes only writable NumPy arrays
        is_ready = isinstance(leaf, np.ndarray) and leaf.flags.writeable
        call = xp.from_numpy if is_ready else lambda value: xp.from_numpy(np.array(value))
    return call
