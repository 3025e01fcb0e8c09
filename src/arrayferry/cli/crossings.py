"""The environments and agents of the demo, and the proof that the agent sees the environment as it is."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import arrayferry
from arrayferry.cli.environments import make

__all__ = ["CROSSINGS", "Crossing", "equal_to_bare"]

_NAMES = {"numpy": "NumPy", "jax": "JAX"}


@dataclass(frozen=True)
class Crossing:
    """An environment of one framework, and an agent of another."""

    env_id: str
    home: str
    agent: str

    def __str__(self) -> str:
        """As in a heading."""
        home, agent = (_NAMES.get(name, name) for name in (self.home, self.agent))
        return f"An environment in {home}, {self.env_id}, driven by {agent}"

    def missing(self) -> str:
        """What has to be installed for it; empty if all is there."""
        here = arrayferry.frameworks()
        extras = [name for name in dict.fromkeys((self.home, self.agent)) if name not in here]
        packages = [f'"arrayferry[{",".join(extras)}]"'] if extras else []
        if self.home == "jax" and find_spec("flax") is None:  # Gymnasium's JAX environments need it
            packages.append("flax")
        return f"pip install {' '.join(packages)}" if packages else ""


CROSSINGS = (
    Crossing("CartPole-v1", "numpy", "torch"),
    Crossing("phys2d/CartPole-v1", "jax", "torch"),
    Crossing("CartPole-v1", "numpy", "jax"),
)


def equal_to_bare(crossing: Crossing, steps: int = 100) -> dict[str, Any]:
    """Let a policy act through the wrapper, repeat its actions without it, and compare every bit."""
    wrapped: Any = arrayferry.wrap(make(crossing.env_id), crossing.agent)
    bare = make(crossing.env_id)
    obs, _ = wrapped.reset(seed=1)
    equal = _same(obs, bare.reset(seed=1)[0])
    act = _policy(obs, crossing.agent)
    for _ in range(steps):
        action = act(obs)
        obs, *rest, _ = wrapped.step(action)
        member = np.int64(action)
        seen, reward, terminated, truncated, _ = bare.step(member)
        dones = bool(terminated), bool(truncated)
        equal &= _same(obs, seen) and rest == [float(reward), *dones]
        if any(dones):
            obs = wrapped.reset()[0]
            equal &= _same(obs, bare.reset()[0])
    wrapped.close()
    bare.close()
    return {"crossing": str(crossing), "steps": steps, "equal": equal}


def _policy(obs: Any, agent: str) -> Any:
    """A linear policy that keeps the pole up for a while, in the agent's framework."""
    from array_api_compat import array_namespace

    xp = array_namespace(obs)
    weights = arrayferry.convert(np.array([[0, 0, -1, -1], [0, 0, 1, 1]], np.float32), agent)
    return lambda obs: xp.argmax(xp.matmul(weights, obs))


def _same(one: Any, two: Any) -> bool:
    """Equal in dtype, shape and every bit."""
    one, two = (np.asarray(arrayferry.convert(value, "numpy")) for value in (one, two))
    return bool(one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes())
