"""R19, R23: what an environment gets: actions and options in its framework, and no action rounded."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

import arrayferry
from reliability.goals import Goal
from reliability.libraries import Library
from reliability.values import NAMES, kind_of, made_in


class Holder(gym.Env[Any, Any]):
    """Holds a state of one framework, and keeps what it is given."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2,))

    def __init__(self, state: Any) -> None:
        self.state, self.given = state, []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.given.append((options or {}).get("start"))
        return self.state, {}

    def step(self, action: Any) -> Any:
        self.given.append(action)
        return self.state, 1.0, False, False, {}


def first_call_is_right(number: int, library: Library) -> None:
    """Options and actions arrive in the environment's framework before it has returned anything."""
    r = random.Random(number)
    source, target, given = (r.choice(NAMES) for _ in range(3))
    state: Any = made_in(source, np.zeros(2, "f4"))
    held = r.choice([lambda: state, lambda: {"now": [state]}, lambda: (1, "text", state)])()
    env = Holder(state)
    env.state, env.extra = state, held
    for _ in range(r.randrange(3)):
        env = gym.wrappers.TimeLimit(env, 9)  # type: ignore[assignment]
    wrapped = arrayferry.wrap(env, target)
    value = made_in(given, np.ones(2, "f4"))
    if r.random() < 0.5:
        wrapped.reset(options={"start": value, "name": "x"})
    elif isinstance(env, Holder):
        wrapped.step(value)
    else:
        wrapped.reset()
        wrapped.step(value)
    got = env.unwrapped.given[-1]
    assert kind_of(got) == source, f"a {type(got).__name__} arrived in an environment of {source}"


def no_action_is_rounded(number: int, library: Library) -> None:
    """What arrives equals what was sent; an integer that the space's dtype would round goes as it is."""
    r = random.Random(number)
    dtype = r.choice([np.float32, np.float64, np.int8, np.int64])
    bits = r.randrange(1, 62)
    kind = r.choice(["int64", "int32"]) if bits < 31 else "int64"
    action = np.array([r.randrange(2**bits), -r.randrange(2**bits)], kind)
    env = Holder(np.zeros(2, "f4"))
    low, high = (-np.inf, np.inf) if np.dtype(dtype).kind == "f" else (-128, 127)
    env.action_space = spaces.Box(low, high, (2,), dtype)
    wrapped = library.wrap(env, "numpy", "torch")
    wrapped.step(torch.from_numpy(action.copy()))
    got = np.asarray(env.given[-1])
    assert [int(x) for x in got] == [int(x) for x in action], f"{action} arrived as {got}"


GOALS = [
    Goal(
        name="R19",
        title="the first call is as right as the second",
        trial=first_call_is_right,
        unit="a first reset or step of an environment that holds its arrays",
        full=20_000,
        thin=60,
    ),
    Goal(
        name="R23",
        title="no action is rounded",
        trial=no_action_is_rounded,
        unit="an integer action into a Box",
        full=20_000,
        thin=60,
        peer=2_000,
    ),
]
