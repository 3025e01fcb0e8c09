"""The record that the author of an interface fills in: two pure functions, and what is known about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from arrayferry.envs.adapters import adapter_of, check_fields, is_named, parts_of
from arrayferry.envs.hints import describe_argument, hint_for, means_environment
from arrayferry.errors import UnsupportedError

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["NEVER", "Interface", "interface_of", "layers", "unlimited", "without"]

# More steps than any episode has; added to another such number, it still fits 32 bits.
NEVER = 2**30


@dataclass(frozen=True)
class Interface:
    """How to drive one environment of a package. `arrayferry.envs` does the rest: many at once, autoreset.

    Both functions are pure and can be traced by JAX. They see one environment, without a batch axis, and
    never reset by themselves.

    Attributes:
        reset: `reset(key)` returns `(state, obs, info)`: any pytree, the observation, and a dict.
        step: `step(key, state, action)` returns `(state, obs, reward, terminated, truncated, info)`.
        observation_space: of one environment; None for a space made from the shapes and dtypes of `obs`.
        action_space: of one environment.
        name: what the environment is called in its spec.
        max_episode_steps: the number of steps after which the package truncates, if its own functions do not.
        render: `render(state)` returns a frame, as an RGB array or as text.
        render_mode: Gymnasium's name for what `render` returns.
        num_envs: how many to step together by default; None for one.
        agents: the names of many agents, for `as_parallel`: observations, actions and their spaces are dicts
            by agent; reward, terminated and truncated are arrays with an element for each, or dicts by agent.
        world_state: `world_state(state)` returns what PettingZoo's `state()` does: one array for all agents.

    Example:
        >>> import jax.numpy as jnp
        >>> from arrayferry.envs import Interface
        >>> from gymnasium import spaces
        >>> def reset(key):
        ...     return jnp.int32(0), jnp.float32([0]), {}
        >>> def step(key, place, action):
        ...     place = place + 2 * action - 1
        ...     return place, jnp.float32([place]), 1.0, abs(place) >= 3, False, {}
        >>> walk = Interface(reset, step, spaces.Box(-3, 3, (1,)), spaces.Discrete(2), name="Walk")
        >>> place, obs, info = walk.reset(None)
        >>> int(walk.step(None, place, 1)[0])
        1
    """

    reset: Callable[[Any], tuple[Any, Any, dict[str, Any]]]
    step: Callable[[Any, Any, Any], tuple[Any, Any, Any, Any, Any, dict[str, Any]]]
    observation_space: spaces.Space[Any] | None
    action_space: spaces.Space[Any]
    name: str = "Environment"
    max_episode_steps: int | None = None
    render: Callable[[Any], Any] | None = None
    render_mode: str = "rgb_array"
    num_envs: int | None = None
    agents: tuple[str, ...] = ()
    world_state: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        check_fields(self, _TYPES)


_TYPES: dict[str, tuple[Any, ...]] = {
    "reset step": (Callable,),
    "render world_state": (Callable, type(None)),
    "action_space": (gym.Space,),
    "observation_space": (gym.Space, type(None)),
    "name render_mode": (str,),
    "max_episode_steps num_envs": (Integral, type(None)),
    "agents": (tuple, list),
}


def interface_of(env: Any) -> Interface:
    """Return the interface of an environment, or of a pair `(env, params)`."""
    describe = adapter_of(env).interface
    env, params = parts_of(env)
    name = describe_argument(env)
    if describe is None:
        hint = "describe how to reset and step it, with arrayferry.envs.register_environment"
        if adapter_of(env).kind is not None:
            hint = "it is a Gymnasium environment already: pass it to arrayferry.wrap"
        elif means_environment(env):
            hint = hint_for(env)
        raise UnsupportedError(f"{name} is not a known environment written in JAX", hint)
    interface: Any = describe(env, params)
    if not isinstance(interface, Interface):
        what = f"the function registered for {name} returned {describe_argument(interface)}"
        raise UnsupportedError(what, "let it return an arrayferry.envs.Interface")
    return interface


def layers(env: Any, inner: str) -> list[Any]:
    """Return an environment and what it wraps, from the outside in; `inner` is as for `without`."""
    return [env, *layers(vars(env)[inner], inner)] if inner in vars(env) else [env]


def without(env: Any, inner: str, *wrappers: str) -> Any:
    """Return an environment without some of its wrappers; the others are copied, the original is left alone.

    Args:
        env: the environment, perhaps wrapped.
        inner: the attribute in which that package's wrappers hold what they wrap.
        wrappers: the classes to leave out, as `"package:Class"`.
    """
    if inner not in vars(env):
        return env
    wrapped = without(vars(env)[inner], inner, *wrappers)
    if is_named(env, *wrappers):
        return wrapped
    env = _twin(env)
    vars(env)[inner] = wrapped
    return env


def unlimited(env: Any, limits: tuple[str, ...], inner: tuple[str, ...]) -> Any:
    """Return a copy of an environment, and of those inside of it, whose time limits are out of reach.

    Packages that do not say why an episode ends are asked again without the limit. The second step computes
    what the first does, but for the limit, and XLA compiles what two steps have in common only once.

    Args:
        env: the environment, perhaps wrapped.
        limits: the attributes that may hold a time limit, in steps.
        inner: the attributes that may hold a wrapped environment.
    """
    env = _twin(env)
    for name in limits:
        if getattr(env, name, None) is not None:
            vars(env)[name] = NEVER
    for name in inner:
        if name in vars(env):
            vars(env)[name] = unlimited(vars(env)[name], limits, inner)
    return env


def _twin(env: Any) -> Any:
    """Return a shallow copy; `copy.copy` looks up attributes that some wrappers look for in themselves."""
    twin = object.__new__(type(env))
    vars(twin).update(vars(env))
    return twin
