"""R28 and R29: keys under every generator of JAX, and time limits of environments written in JAX."""

from __future__ import annotations

import random
from functools import cache
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
from gymnasium import spaces

from arrayferry.envs import Interface, as_gymnasium, register_environment
from arrayferry.envs import adapters as adapters
from envs.time_limited import GAMES, Params
from reliability.goals import Goal
from reliability.libraries import Library

# ---- R28: environments draw from independent keys under every generator ----------------------------------

_GENERATORS = ["threefry2x32", "rbg", "unsafe_rbg"]


class _Dice:
    """Draws in resets and steps, and ends at random."""


def _dice(env: _Dice, params: Any) -> Interface:
    def reset(key: Any) -> Any:
        roll = jax.random.uniform(key, (2,))
        return roll, roll, {}

    def step(key: Any, state: Any, action: Any) -> Any:
        roll = jax.random.uniform(key, (2,))
        return roll, roll, 1.0, roll[0] < 0.3, False, {}

    return Interface(reset, step, None, spaces.Discrete(2), "Dice")


def _made(count: int | None, mode: str) -> Any:
    with patch.dict(adapters._adapters):
        register_environment(_Dice, _dice)
        return as_gymnasium(_Dice(), count, autoreset_mode=None if count is None else mode)


@cache
def _kept(generator: str, custom: bool, partitionable: bool, count: int | None, mode: str) -> Any:
    return _made(count, mode)


def keys_are_independent(number: int, library: Library) -> None:
    """No two draws of any environments are the same, and each row has its own seed."""
    r = random.Random(number)
    generator, custom, partitionable = r.choice(_GENERATORS), r.random() < 0.5, r.random() < 0.5
    count, mode, seed = r.choice([1, 2, 5]), r.choice(["SameStep", "NextStep"]), r.randrange(2**31)
    settings = generator, custom, partitionable
    setting = jax.default_prng_impl(generator), jax.enable_custom_prng(custom)
    with setting[0], setting[1], jax.threefry_partitionable(partitionable):
        envs, alone = _kept(*settings, count, mode), _kept(*settings, None, "SameStep")
        draws = [np.asarray(envs.reset(seed=seed)[0])]
        for _ in range(r.randrange(4, 12)):
            draws.append(np.asarray(envs.step(np.zeros(count, int))[0]))
        row = r.randrange(count)
        expected = np.asarray(alone.reset(seed=seed + row)[0])
    assert np.array_equal(draws[0][row], expected), f"row {row} does not begin as its seed does"
    every = np.concatenate(draws)
    repeated = len(every) - len({draw.tobytes() for draw in every})
    assert not repeated, f"{repeated} of {len(every)} draws repeat others under {settings}"


# ---- R29: time limits are truncations --------------------------------------------------------------------

_PACKAGED = ["CartPole-v1", "Breakout-MinAtar", "SpaceInvaders-MinAtar", "Catch-bsuite", "Pong-misc"]


@cache
def _game(name: str, limit: int) -> Any:
    games = {game.__name__: game for game in GAMES}
    if name in games:
        return as_gymnasium((games[name](), Params(max_steps_in_episode=limit)))
    import gymnax

    env, params = gymnax.make(name)
    return as_gymnasium((env, params.replace(max_steps_in_episode=limit)))


def limits_are_truncations(number: int, library: Library) -> None:
    """An episode with a limit terminates where that without one does, and is truncated otherwise."""
    r = random.Random(number)
    names = [game.__name__ for game in GAMES] + (_PACKAGED if find_spec("gymnax") else [])
    name, limit, seed = r.choice(names), r.choice([1, 3, 7]), r.randrange(10**6)
    limited, endless = _game(name, limit), _game(name, 10**6)
    for env in limited, endless:
        env.reset(seed=seed)
    for t in range(1, limit + 1):
        action = r.randrange(int(limited.action_space.n))
        (terminated, truncated), (ended, _) = limited.step(action)[2:4], endless.step(action)[2:4]
        assert terminated == ended, f"{name} at step {t} of {limit}: terminated is {terminated}"
        if terminated or truncated:
            is_late = t >= limit - (name == "Late")
            assert terminated or is_late, f"{name} was truncated after {t} of {limit} steps"
            return
    raise AssertionError(f"{name} goes on after its limit of {limit} steps")


GOALS = [
    Goal(
        name="R28",
        title="environments in JAX draw from independent keys",
        trial=keys_are_independent,
        unit="a random rollout under one of 12 settings of JAX's generators",
        full=3_000,
        thin=12,
    ),
    Goal(
        name="R29",
        title="time limits are truncations",
        trial=limits_are_truncations,
        unit="an episode with a time limit, compared with one without",
        full=10_000,
        thin=30,
    ),
]
