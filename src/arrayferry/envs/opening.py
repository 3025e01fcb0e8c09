"""Environments of any kind as Gymnasium's or PettingZoo's: `as_gymnasium` and `as_parallel`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypedDict, overload

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from arrayferry._boundary.autoreset import known_autoreset_mode
from arrayferry._core.messages import count_of
from arrayferry.envs._engine import Engine
from arrayferry.envs._environments import JaxEnv, JaxVectorEnv
from arrayferry.envs._interface import interface_of
from arrayferry.envs.adapters import adapter_of, parts_of
from arrayferry.envs.hints import refuse_options
from arrayferry.envs.simulators.families import is_many, open_simulator, unknown
from arrayferry.errors import NotInstalledError, UnsupportedError

__all__ = ["as_gymnasium", "as_parallel", "open_environment", "opened"]


if TYPE_CHECKING:
    from typing_extensions import Unpack

    from arrayferry.envs._parallel import JaxParallelEnv

    class Options(TypedDict, total=False):
        """The options of `as_gymnasium`."""

        autoreset_mode: AutoresetMode | str | None
        max_episode_steps: int | None
        render_mode: str | None
        final_obs: bool | None


@overload
def as_gymnasium(env: Any, num_envs: int, **options: Unpack[Options]) -> JaxVectorEnv: ...
@overload
def as_gymnasium(env: Any, num_envs: None = None, **options: Unpack[Options]) -> Any: ...
def as_gymnasium(
    env: Any,
    num_envs: int | None = None,
    *,
    autoreset_mode: AutoresetMode | str | None = None,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    final_obs: bool | None = None,
) -> Any:
    """Return an environment of another interface as a Gymnasium environment, without converting its arrays.

    It takes environments written in JAX, for which a step is one compiled call: the package's step, the
    reset of environments whose episodes are over, and their final observations. It takes batched simulators
    such as Isaac Lab's, dm_env's environments, and every other kind for which there is an adapter that opens
    it.

    Args:
        env: the environment, as its package makes it: alone, or as a pair `(env, params)`.
        num_envs: for environments written in JAX, how many to step together, as a vector environment; None
            for a single environment.
        autoreset_mode: when a vector environment resets those whose episodes are over, as in Gymnasium; None
            for SAME_STEP, or for what a simulator does. Those of dm_env are made already, and follow their
            own rule.
        max_episode_steps: for environments written in JAX, the number of steps after which an episode is
            truncated, if not earlier.
        render_mode: for environments written in JAX, `"rgb_array"`, or another mode that the package
            supports; None for no rendering.
        final_obs: for simulators, False to save what final observations cost, True to have them even where
            that takes reaching into the simulator; None to have them where it can be asked for them.

    Raises:
        UnsupportedError: it has many agents, is Gymnasium's already, or does not take one of the options.

    Example:
        >>> from arrayferry.envs import as_gymnasium
        >>> from gymnasium.envs.phys2d.cartpole import CartPoleFunctional
        >>> envs = as_gymnasium(CartPoleFunctional(), num_envs=3, max_episode_steps=500)
        >>> obs, info = envs.reset(seed=123)
        >>> obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        >>> obs.shape, reward
        ((3, 4), Array([1., 1., 1.], dtype=float32))
    """
    mode = None if autoreset_mode is None else known_autoreset_mode(autoreset_mode)
    opens: Any = adapter_of(env).open
    if opens is None and mode is not None and is_many(env):
        opens = partial(open_simulator, unknown)  # which looks like a single environment
    if isinstance(opens, partial) and opens.func is open_simulator:
        opens = partial(opens, final_obs=final_obs)
    else:
        refuse_options(env, final_obs=final_obs)
    if opens is not None:
        refuse_options(env, max_episode_steps=max_episode_steps, render_mode=render_mode)
        return opens(*parts_of(env), num_envs, mode)
    interface = interface_of(env)
    if interface.agents:
        what = f"{interface.name} has many agents, which Gymnasium's environments do not"
        raise UnsupportedError(what, "use as_parallel, or arrayferry.wrap, which chooses the right one")
    num_envs = interface.num_envs if num_envs is None else num_envs
    if num_envs is not None:
        count_of("num_envs", num_envs, ", or None for a single environment")
    elif mode is not None:
        what = f"autoreset_mode={mode}, but a single environment never resets itself"
        raise UnsupportedError(what, "pass num_envs, or leave autoreset_mode out")
    if max_episode_steps is not None:
        count_of("max_episode_steps", max_episode_steps)
    engine = Engine(env, num_envs, mode or AutoresetMode.SAME_STEP, max_episode_steps, interface)
    return JaxEnv(engine, render_mode) if num_envs is None else JaxVectorEnv(engine, render_mode)


def as_parallel(env: Any, num_envs: None = None) -> JaxParallelEnv:
    """Return an environment with many agents, written in JAX, as a parallel PettingZoo environment.

    Args:
        env: the environment, as `jaxmarl.make` returns it.
        num_envs: must be None: PettingZoo has no vector environments.

    Example:
        >>> import jax.numpy as jnp
        >>> from arrayferry.envs import Interface, as_parallel, register_environment
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
    from arrayferry.envs._parallel import JaxParallelEnv

    interface = interface_of(env)
    if not interface.agents:
        what = f"{interface.name} has one agent, and PettingZoo's environments have many"
        raise UnsupportedError(what, "use as_gymnasium, or arrayferry.wrap, which chooses the right one")
    return JaxParallelEnv(Engine(env, None, AutoresetMode.DISABLED, None, interface))


def open_environment(env: Any, num_envs: Any = None, autoreset_mode: Any = None) -> Any:
    """Return an environment as Gymnasium's or PettingZoo's; one that is that already, as it is."""
    adapter = adapter_of(env)
    if adapter.interface is not None and interface_of(env).agents:
        refuse_options(env, autoreset_mode=autoreset_mode)
        return as_parallel(env, num_envs)
    if adapter.open is not None or adapter.interface is not None:
        return as_gymnasium(env, num_envs, autoreset_mode=autoreset_mode)
    if adapter.kind is not None:
        mode = None if autoreset_mode is None else known_autoreset_mode(autoreset_mode)
        refuse_options(env, num_envs=num_envs, autoreset_mode=mode)
    return env


@contextmanager
def opened(env: Any) -> Iterator[Any]:
    """Yield an environment as Gymnasium's; one given by its id is made here, and closed at the end."""
    if not isinstance(env, str):
        yield open_environment(env)
        return
    try:
        made = gym.make(env)
    except (gym.error.Error, ModuleNotFoundError) as error:
        hint = "pass the id of a registered environment, or the environment itself"
        raise UnsupportedError(f"{env!r} does not name an environment: {error}", hint) from error
    with closing(made):
        yield made
