"""The record that the author of an interface fills in: two pure functions, and what is known about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym

from arrayferry.errors import OptionError, UnsupportedError
from arrayferry.wrappers import _kinds

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["NEVER", "Interface", "interface_of", "named", "register_environment", "unlimited", "without"]

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
        for names, types in _TYPES.items():
            for name in names.split():
                value: Any = getattr(self, name)
                is_count = not isinstance(value, Integral) or (
                    int(value) >= 1 and not isinstance(value, bool)
                )
                if not (isinstance(value, types) and is_count):
                    words = " or ".join(kind.__name__ for kind in types)
                    raise OptionError(f"Interface({name}={value!r}) is not valid", f"pass {words}")


_TYPES: dict[str, tuple[Any, ...]] = {
    "reset step": (Callable,),
    "render world_state": (Callable, type(None)),
    "action_space": (gym.Space,),
    "observation_space": (gym.Space, type(None)),
    "name render_mode": (str,),
    "max_episode_steps num_envs": (Integral, type(None)),
    "agents": (tuple, list),
}

# Maps an environment and its parameters, None for the default ones, to its interface.
Describe: TypeAlias = Callable[[Any, Any], Interface]


def register_environment(of: str | type, interface: str | Describe, *, replace: bool = False) -> None:
    """Let `as_gymnasium`, or `as_parallel`, and `wrap` take the environments of a class and its subclasses.

    Args:
        of: the class; or `"package:Class"`, its top-level package and its name, which does not import it.
        interface: `interface(env, params)` returns the `Interface` of an environment, where `params` is the
            second part of a pair `(env, params)`, and None for an environment alone; or
            `"module:function"`, which is imported when it is needed.
        replace: whether to replace what `wrap` does with the environments of this class so far.

    Raises:
        OptionError: if an argument is not what it should be, or the class is known already.

    Example:
        >>> import jax.numpy as jnp
        >>> from gymnasium import spaces
        >>> class Walk:
        ...     "Go left or right until you are 3 steps away."
        >>> def interface(env, params):
        ...     def reset(key):
        ...         return jnp.int32(0), jnp.float32([0]), {}
        ...
        ...     def step(key, place, action):
        ...         place = place + 2 * action - 1
        ...         obs = jnp.float32([place])
        ...         return place, obs, 1.0, abs(place) >= 3, False, {}
        ...
        ...     return Interface(reset, step, spaces.Box(-3, 3, (1,)), spaces.Discrete(2), name="Walk")
        >>> register_environment(Walk, interface)
        >>> import arrayferry
        >>> envs = arrayferry.wrap(Walk(), "numpy", num_envs=2)
        >>> obs, info = envs.reset(seed=123)
        >>> envs.step([0, 1])[0]
        array([[-1.],
               [ 1.]], dtype=float32)
    """
    if not (isinstance(of, type) or _is_named(of)):
        raise OptionError(f"of={of!r} is not valid", 'pass a class, or "package:Class"')
    if not (callable(interface) or _is_named(interface)) or isinstance(interface, type):
        hint = 'pass a function interface(env, params) that returns an Interface, or "module:function"'
        raise OptionError(f"interface={interface!r} is not valid", hint)
    if _kinds.is_registered(of) and not replace:
        raise OptionError(f"{of} is registered already", "pass replace=True to replace it")
    _kinds.register_kind(of, _kinds.Kind(adapt="arrayferry.envs:_adapt", interface=interface))


def _is_named(value: Any) -> bool:
    """Return whether a value is two names with a colon between them."""
    return isinstance(value, str) and value.count(":") == 1 and all(value.split(":"))


def interface_of(env: Any) -> Interface:
    """Return the interface of an environment, or of a pair `(env, params)`."""
    kind = _kinds.find_kind(env)
    env, params = env if type(env) is tuple and len(env) == 2 else (env, None)
    name = _kinds.describe_argument(env)
    if kind is None or kind.interface is None:
        already = "it is a Gymnasium environment already: pass it to arrayferry.wrap"
        hint = already if isinstance(env, (gym.Env, gym.vector.VectorEnv)) else _kinds.how_to_make(env)
        describe = "describe how to reset and step it, with arrayferry.envs.register_environment"
        raise UnsupportedError(f"{name} is not a known environment written in JAX", hint or describe)
    described = _kinds.resolve(kind.interface)(env, params)
    if not isinstance(described, Interface):
        what = f"the function registered for {name} returned {_kinds.describe_argument(described)}"
        raise UnsupportedError(what, "let it return an arrayferry.envs.Interface")
    return described


def named(env: Any, *packages: str) -> bool:
    """Return whether an environment's class is `"package:Class"`, without importing the package."""
    return f"{type(env).__module__.partition('.')[0]}:{type(env).__name__}" in packages


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
    if named(env, *wrappers):
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
