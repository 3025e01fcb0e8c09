"""The ways to let an agent of one framework use an environment of another: what `bench` compares.

All of them step environments of their own, with the same seed and the same actions.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import cycle, islice
from time import perf_counter
from typing import Any

import numpy as np

import arrayferry
from arrayferry._core.registry import find_framework
from arrayferry.cli.environments import make
from arrayferry.cli.measure import Trip

__all__ = ["BARE", "BY_HAND", "OURS", "THEIRS", "rivals", "trouble_by_hand", "trouble_with_theirs"]

BARE, BY_HAND, THEIRS, OURS = "bare", "by hand", "Gymnasium's wrapper", "arrayferry"
_ACTIONS, _SEED = 64, 0


def rivals(env_id: str, vector: int | None, to: str, without: Iterable[str] = ()) -> dict[str, Trip]:
    """Trips of each: the environment alone, an expert's own lines, Gymnasium's wrapper, ours."""
    ours: Any = arrayferry.wrap(make(env_id, vector), to)
    ours.reset(seed=_SEED)
    home = ours._boundary.incoming.framework.name  # the wrapper has learned it by now
    ours.action_space.seed(_SEED)
    sampled = [ours.action_space.sample() for _ in range(_ACTIONS)]
    native = [ours._boundary.convert_action(action) for action in sampled]
    given = arrayferry.convert(sampled, to)
    envs: dict[str, tuple[Callable[[], Any], list[Any]]] = {
        BARE: (lambda: make(env_id, vector), native),
        BY_HAND: (lambda: _ByHand(make(env_id, vector), home, to, vector), given),
        THEIRS: (lambda: _their_wrapper(make(env_id, vector), home, to, vector), given),
        OURS: (lambda: ours, given),
    }
    return {
        name: _trip(make_it(), actions, vector)
        for name, (make_it, actions) in envs.items()
        if name not in without
    }


def _trip(env: Any, actions: list[Any], vector: int | None) -> Trip:
    """From the same start with the same actions; a single environment goes on after an episode's end."""

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


class _ByHand:
    """What an expert writes for this environment: one call a leaf, no checks, memory shared if possible."""

    def __init__(self, env: Any, home: str, to: str, vector: int | None) -> None:
        self._env, self._enter = env, _entering(env.action_space)
        self._leave = _leaving(env.reset(seed=_SEED)[0], to)
        self._leave_more = _maker(to, np.zeros(1) if home == "numpy" else None) if vector else None

    def reset(self, **options: Any) -> Any:
        """Start an episode."""
        return self._leave(self._env.reset(**options)[0])

    def step(self, action: Any) -> Any:
        """Take a step; info stays as it is, and so do one reward and its dones."""
        obs, reward, terminated, truncated, info = self._env.step(self._enter(action))
        more = self._leave_more
        if more is None:
            return self._leave(obs), reward, terminated, truncated, info
        return self._leave(obs), more(reward), more(terminated), more(truncated), info


def _entering(space: Any) -> Callable[[Any], Any]:
    from gymnasium.spaces import Dict, Discrete, Tuple

    if isinstance(space, Discrete):
        return lambda action: action.item()
    if isinstance(space, Dict):
        inner = {key: _entering(child) for key, child in space.items()}
        return lambda action: {key: enter(action[key]) for key, enter in inner.items()}
    if isinstance(space, Tuple):
        each = [_entering(child) for child in space]
        return lambda action: tuple(enter(child) for enter, child in zip(each, action))
    return np.asarray


def _leaving(sample: Any, to: str) -> Callable[[Any], Any]:
    if isinstance(sample, Mapping):
        inner = {key: _leaving(child, to) for key, child in sample.items()}
        return lambda value: {key: leave(value[key]) for key, leave in inner.items()}
    if isinstance(sample, tuple):
        each = [_leaving(child, to) for child in sample]
        return lambda value: tuple(leave(child) for leave, child in zip(each, value))
    return _maker(to, sample)


def _maker(to: str, sample: Any) -> Callable[[Any], Any]:
    if to == "torch":
        import torch

        if type(sample) is np.ndarray and sample.flags.writeable:
            return torch.from_numpy
        # A number, an array of another framework, or one that may not be written to.
        return lambda value: torch.from_numpy(np.array(value))
    make_array: Callable[[Any], Any] | None = getattr(find_framework(to).load(), "asarray", None)
    return make_array or arrayferry.Converter(to)


def _their_wrapper(env: Any, home: str, to: str, vector: int | None) -> Any:
    """Gymnasium's own wrapper for this pair."""
    import gymnasium as gym

    wrapper: Any = (gym.wrappers.vector if vector else gym.wrappers).ArrayConversion
    here, there = (find_framework(name).load() for name in (home, to))
    return wrapper(env, env_xp=here, target_xp=there)


def trouble_by_hand(env_id: str, vector: int | None, to: str, steps: int = 10) -> str:
    """What an expert's own lines cannot do here; empty if they can do all."""
    try:
        [trip] = rivals(env_id, vector, to, without=[BARE, THEIRS, OURS]).values()
        trip(steps)
    except Exception as error:  # whatever a framework raises
        return f"{type(error).__name__}: {error}"
    return ""


def trouble_with_theirs(env_id: str, vector: int | None, to: str, steps: int = 50) -> str:
    """The same of Gymnasium's wrapper, in a process of its own, for it may not survive."""
    code = (
        f"from arrayferry.cli.rivals import *\n"
        f"[trip] = rivals({env_id!r}, {vector!r}, {to!r}, without=[BARE, BY_HAND, OURS]).values()\n"
        f"trip({steps})\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        return f"the process died of signal {-done.returncode}"
    lines = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else lines[-1] if lines else f"exit code {done.returncode}"
