"""A toy interface: walk left or right on a line, from a random place, until an end of it is reached.

It draws numbers in every step, has infos of its own in resets and steps, and an int that becomes a float.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from arrayferry.envs import Interface

SPACE = spaces.Dict(place=spaces.Box(-9, 9, (1,), np.float32), noise=spaces.Box(0, 1, (2,), np.float32))


class Walk:
    """Counts how often its functions are traced; `limit` is its own, `broken` raises in a step."""

    def __init__(self, end: int = 3, broken: bool = False, changing: bool = False) -> None:
        self.end, self.broken, self.changing = end, broken, changing


def interface(env: Walk, params: Any) -> Interface:
    size = 1 if params is None else params["size"]

    def reset(key: Any) -> Any:
        place = jax.random.uniform(key, minval=-1)
        state = {"place": place, "total": 0}
        return state, show(place, key), {"both": place, "nested": {"began": 1, "from": place}, "reset": place}

    def step(key: Any, state: Any, action: Any) -> Any:
        if env.broken:
            float(state["place"])
        place = state["place"] + size * (2 * action - 1)
        total = state["total"] + jnp.float32(0.5)
        info = {"both": place, "nested": {"began": 0, "total": total}, "step": total}
        state = [place] if env.changing else {"place": place, "total": total}
        return state, show(place, key), place, abs(place) >= env.end, total >= 4, info

    def show(place: Any, key: Any) -> Any:
        return {"place": place[None].astype(jnp.float32), "noise": jax.random.uniform(key, (2,))}

    def render(state: Any) -> Any:
        return np.full((2, 2, 3), float(state["place"]), np.float32)

    return Interface(reset, step, SPACE, spaces.Discrete(2), "tests/Walk-v0", render=render)


def native(seed: int, actions: Any, env: Walk | None = None) -> list[Any]:
    """The trajectory of one environment by the documented keys: episodes follow each other.

    Each item is `(obs, reward, terminated, truncated, first observation of the next episode or None)`, after
    the first observation of all.
    """
    functions = interface(env or Walk(), None)
    key, reset_key = jax.random.split(jax.random.PRNGKey(seed))
    state, obs, _ = functions.reset(reset_key)
    found, time = [obs], 0
    for action in actions:
        time += 1
        state, obs, reward, terminated, truncated, _ = functions.step(
            jax.random.fold_in(key, time + 1), state, action
        )
        first = None
        if terminated or truncated:
            key, reset_key = jax.random.split(key)
            state, first, _ = functions.reset(reset_key)
            time = 0
        found.append((obs, float(reward), bool(terminated), bool(truncated), first))
    return found
