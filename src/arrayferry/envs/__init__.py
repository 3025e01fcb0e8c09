"""Environments written in JAX, as Gymnasium environments.

`as_gymnasium` takes what gymnax, Brax, MuJoCo Playground, Jumanji, pgx and XLand-MiniGrid make, and
Gymnasium's own `FuncEnv`; `as_parallel` takes JaxMARL's, in the shape of PettingZoo. `arrayferry.wrap` calls
them automatically. `register_environment` adds others.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from gymnasium.vector import AutoresetMode

from arrayferry.envs._engine import Engine
from arrayferry.envs._environments import JaxEnv, JaxVectorEnv, as_gymnasium
from arrayferry.envs._interface import Interface, interface_of, register_environment
from arrayferry.envs._parallel import JaxParallelEnv
from arrayferry.errors import NotInstalledError, UnsupportedError

__all__ = [
    "Interface",
    "JaxEnv",
    "JaxParallelEnv",
    "JaxVectorEnv",
    "as_gymnasium",
    "as_parallel",
    "register_environment",
]


def as_parallel(env: Any, num_envs: None = None) -> JaxParallelEnv:
    """Return an environment with many agents, written in JAX, as a parallel PettingZoo environment.

    Args:
        env: the environment, as `jaxmarl.make` returns it.
        num_envs: must be None: PettingZoo has no vector environments.

    Example:
        >>> import jax.numpy as jnp
        >>> from gymnasium import spaces
        >>> class Tug:
        ...     "Two agents pull on a rope."
        >>> def interface(env, params):
        ...     def reset(key):
        ...         return jnp.zeros(1), {"left": jnp.zeros(1), "right": jnp.zeros(1)}, {}
        ...
        ...     def step(key, rope, action):
        ...         rope = rope + action["right"] - action["left"]
        ...         won = jnp.concatenate([-rope, rope])
        ...         return rope, {"left": -rope, "right": rope}, won, abs(won) >= 3, jnp.zeros(2, bool), {}
        ...
        ...     strength = spaces.Dict(left=spaces.Discrete(3), right=spaces.Discrete(3))
        ...     return Interface(reset, step, None, strength, name="Tug", agents=("left", "right"))
        >>> register_environment(Tug, interface)
        >>> env = as_parallel(Tug())
        >>> obs, infos = env.reset(seed=123)
        >>> env.step({"left": 0, "right": 2})[1]
        {'left': -2.0, 'right': 2.0}
    """
    if num_envs is not None:
        raise UnsupportedError(f"num_envs={num_envs}: PettingZoo has no vector environments", "leave it out")
    if find_spec("pettingzoo") is None:
        raise NotInstalledError("PettingZoo is not installed", "pip install pettingzoo")
    interface = interface_of(env)
    if not interface.agents:
        what = f"{interface.name} has one agent, and PettingZoo's environments have many"
        raise UnsupportedError(what, "use as_gymnasium, or arrayferry.wrap, which chooses the right one")
    return JaxParallelEnv(Engine(env, None, AutoresetMode.DISABLED, None, interface))


def _adapt(env: Any, num_envs: int | None) -> Any:
    """Return an environment as `wrap` takes it, which depends on how many agents it has."""
    make: Callable[..., Any] = as_parallel if interface_of(env).agents else as_gymnasium
    return make(env, num_envs)
