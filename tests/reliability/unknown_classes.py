"""R30: an observation of an unknown class that holds arrays is warned of once, and stays as it is."""

from __future__ import annotations

import random
import warnings
from typing import Any

import gymnasium as gym
import numpy as np

import arrayferry
from arrayferry.errors import KeptWarning
from reliability.goals import Goal
from reliability.libraries import Library


class Plain:
    pass


class Frozen(Plain):
    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("it is frozen")


class Computed(Plain):
    @property
    def total(self) -> Any:
        raise RuntimeError("properties are not read")


BASES = (object, Plain, Frozen, Computed)


def _made(draw: random.Random) -> tuple[Any, bool]:
    """An object of a new class, and whether it holds an array."""
    base, has_slots, has_array = draw.choice(BASES), draw.random() < 0.5, draw.random() < 0.7
    cls: Any = type("Unknown", (base,), {"__slots__": ("first", "second")} if has_slots else {})
    held: Any = (
        np.zeros(2, draw.choice(["float32", "int64", "bool"])) if has_array else draw.choice([1, "a", None])
    )
    for _ in range(draw.randrange(4)):
        held = draw.choice([lambda x: [x], lambda x: {"k": x}, lambda x: (1, x), lambda x: {"k": [x]}])(held)
    value = cls()
    object.__setattr__(value, "first", held)
    return value, has_array


class _Shows(gym.Env[Any, Any]):
    observation_space = action_space = gym.spaces.Discrete(2)

    def __init__(self, value: Any, place: int) -> None:
        self.obs: Any = (value, [value], {"a": (value,)})[place]
        self.info = {"value": value}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.obs, self.info

    def step(self, action: Any) -> Any:
        return self.obs, 0.0, False, False, self.info


def unknown_classes_are_told(number: int, library: Library) -> None:
    draw = random.Random(number)
    value, has_array = _made(draw)
    place = draw.randrange(3)
    env = arrayferry.wrap(_Shows(value, place), draw.choice(["torch", "jax", "numpy"]), env_xp="numpy")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        results = [env.reset(), env.step(0), env.step(1)]
    for obs, *_, info in results:
        found = obs if place == 0 else obs[0] if place == 1 else obs["a"][0]
        assert found is value, "it was changed"
        assert info["value"] is value, "it was changed in the info"
    kept = [one for one in told if issubclass(one.category, KeptWarning)]
    assert len(kept) == has_array, f"{len(kept)} warnings"
    assert all("register_container(Unknown" in str(one.message) for one in kept)


GOALS = [
    Goal(
        name="R30",
        title="observations of unknown classes that hold arrays get one warning, and stay as they are",
        trial=unknown_classes_are_told,
        unit="a new class: slots, attributes, frozen, with properties; arrays nested in lists and dicts",
        full=20_000,
        thin=200,
    )
]
