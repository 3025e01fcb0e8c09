"""What arrayferry knows about each kind of environment: one record, found by class or by a predicate.

A class is named `"package:Class"`: the top-level package that defines it, and its name; the package is never
imported. Subclasses are found through their bases, wherever they are defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from itertools import product
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import gymnasium as gym
from gymnasium.vector import VectorEnv, VectorWrapper

from arrayferry._boundary.detect import layers_of
from arrayferry._core.messages import refuse_choice
from arrayferry.errors import OptionError

if TYPE_CHECKING:
    from arrayferry.envs._interface import Interface

__all__ = [
    "UNKNOWN",
    "EnvAdapter",
    "adapter_of",
    "check_fields",
    "framework_of",
    "is_known_class",
    "is_named",
    "parts_of",
    "register_environment",
]

# Maps an environment and its parameters, None for the default ones, to its interface.
Describe: TypeAlias = "Callable[[Any, Any], Interface]"


@dataclass(frozen=True)
class EnvAdapter:
    """What there is to know about one kind of environment. `wrap` and all others ask this record.

    Attributes:
        kind: `"single"` or `"vector"` as in Gymnasium, `"parallel"` or `"aec"` as in PettingZoo, once it is
            open; None if it is refused, for the reason that `hint` gives.
        open: `open(env, params, num_envs, autoreset_mode)` returns a Gymnasium or PettingZoo environment;
            None if it is one already. `params` is the second part of a pair `(env, params)`; all three are
            None if nobody asked for anything. It raises where it does not take an option.
        interface: `interface(env, params)` returns the `Interface` of an environment written in JAX, which
            replaces `open`.
        framework: the framework of its arrays, by name; or a function that returns the name and the device
            for an environment, or None; None if only the arrays can tell.
        action_framework: the framework in which `step` takes actions, if that is another one.
        reads_actions_at_once: whether a step has read its action when it returns, and returns nothing that
            shares memory with it: then it may be given the agent's own memory.
        calls: its methods that carry arrays, besides `step` and `reset`, with what goes in (`"action"`,
            `"options"` or None) and what comes out (`"step"`, `"reset"` or None).
        xla: what to call instead of `in_jit`, if it has functions of its own for compiled code.
        hint: what to do instead, if it is refused.

    Example:
        >>> import arrayferry, gymnasium as gym
        >>> from arrayferry.envs import EnvAdapter, register_environment
        >>> class Simulator:
        ...     "An environment of another package, which has its own interface."
        >>> def open_simulator(env, params, num_envs, autoreset_mode):
        ...     return gym.make_vec("CartPole-v1", num_envs or 1)
        >>> register_environment(Simulator, EnvAdapter("vector", open_simulator))
        >>> arrayferry.wrap(Simulator(), "numpy", num_envs=3).num_envs
        3
    """

    kind: Literal["single", "vector", "parallel", "aec"] | None
    open: Callable[[Any, Any, int | None, Any], Any] | None = None
    interface: Describe | None = None
    framework: str | Callable[[Any], tuple[str, Any] | None] | None = None
    action_framework: str | None = None
    reads_actions_at_once: bool = False
    calls: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    xla: str = ""
    hint: str = ""

    def __post_init__(self) -> None:
        check_fields(self, _TYPES)
        if self.kind is not None:
            refuse_choice("kind", self.kind, "single", "vector", "parallel", "aec")
        elif not self.hint:
            raise OptionError("EnvAdapter(kind=None) has no hint", "say what to do instead, with hint=")
        for name, carried in self.calls.items():
            if carried not in _CARRIED:
                hint = 'map names of methods to pairs, such as {"send": ("action", None)}'
                raise OptionError(f"EnvAdapter(calls={{{name!r}: {carried!r}}}) is not valid", hint)


_TYPES: dict[str, tuple[Any, ...]] = {
    "open interface": (Callable, type(None)),
    "framework": (str, Callable, type(None)),
    "action_framework": (str, type(None)),
    "reads_actions_at_once": (bool,),
    "calls": (Mapping,),
    "xla hint": (str,),
}
_CARRIED = [*product(("action", "options", None), ("step", "reset", None))]


def check_fields(record: Any, types: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse a record whose fields are not of these types; a whole number must be at least 1."""
    for names, kinds in types.items():
        for name in names.split():
            value: Any = getattr(record, name)
            is_count = isinstance(value, Integral) and bool not in kinds
            if not isinstance(value, kinds) or (is_count and (isinstance(value, bool) or int(value) < 1)):
                words = " or ".join(kind.__name__ for kind in kinds)
                raise OptionError(f"{type(record).__name__}({name}={value!r}) is not valid", f"pass {words}")


UNKNOWN = EnvAdapter(
    None, hint="pass a gymnasium.Env or a gymnasium.vector.VectorEnv, such as gymnasium.make(...) returns"
)

# By class, as itself or as "package:Class", or by a predicate.
_adapters: dict[str | type | Callable[[Any], bool], EnvAdapter] = {}


def register_environment(
    of: str | type | Callable[[Any], bool], adapter: EnvAdapter | Describe, *, replace: bool = False
) -> None:
    """Let `wrap`, `as_gymnasium` and all others take the environments of a class and its subclasses.

    Args:
        of: the class; or `"package:Class"`, its top-level package and its name, which does not import it. Or
            a function that recognises an environment by its attributes. It is called with whatever is passed
            to `wrap` or `explain` and is of no class that is registered, so it must not raise; the last one
            to be registered is asked first.
        adapter: an `EnvAdapter`; or, for environments written in JAX, a function `interface(env, params)`
            that returns the `Interface` of an environment, where `params` is the second part of a pair
            `(env, params)`, and None for an environment alone.
        replace: whether to replace what is known about the environments of this class so far.

    Raises:
        OptionError: if an argument is not what it should be, or the class is known already.

    Example:
        >>> import jax.numpy as jnp
        >>> from arrayferry.envs import Interface, register_environment
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
    key: Any = of
    if not (callable(key) or (isinstance(key, str) and key.count(":") == 1 and all(key.split(":")))):
        hint = 'pass a class, "package:Class", or a function that recognises an environment'
        raise OptionError(f"of={of!r} is not valid", hint)
    if not isinstance(adapter, EnvAdapter):
        if not isinstance(adapter, Callable) or isinstance(adapter, type):  # type: ignore[arg-type]
            hint = "pass an EnvAdapter, or a function interface(env, params) that returns an Interface"
            raise OptionError(f"adapter={adapter!r} is not valid", hint)
        adapter = EnvAdapter("single", interface=adapter)
    names = {of, _name_of(of)} if isinstance(of, type) else {of}
    if not replace and names & _adapters.keys():
        raise OptionError(f"{of} is registered already", "pass replace=True to replace it")
    _adapters[of] = adapter


def adapter_of(env: Any) -> EnvAdapter:
    """Return what is known about an environment, or about the one in a pair `(env, params)`.

    Gymnasium's wrappers are looked through, from the outside in. Then classes come first, predicates second,
    and Gymnasium's two base classes last. `UNKNOWN` stands for anything else.
    """
    env, _ = parts_of(env)
    layer, adapter = next(_known_layers(env), (env, None))
    if adapter is None:
        # Some native vector environments are instances of both classes; they act as vector environments.
        return next((_adapters[base] for base in _BASES if isinstance(env, base)), UNKNOWN)
    if layer is env:
        return adapter
    # A wrapper may compute with actions, or keep them.
    return replaced(adapter, action_framework=None, reads_actions_at_once=False, xla="")


def _known_layers(env: Any) -> Iterator[tuple[Any, EnvAdapter]]:
    layers = [env]
    while isinstance(env, (gym.Wrapper, VectorWrapper)):
        layers.append(env := env.env)
    for layer in layers:
        if (adapter := _by_class(type(layer))) is not None:
            yield layer, adapter
    for recognises, adapter in reversed([*_adapters.items()]):
        if not isinstance(recognises, (str, type)):
            yield from ((layer, adapter) for layer in layers if recognises(layer))


def framework_of(env: Any) -> tuple[str, Any] | None:
    """Return the framework and the device of an environment's arrays, by the class of any of its layers."""
    for layer in layers_of(env):
        adapter = _by_class(type(layer))
        if adapter is not None and adapter.framework is not None:
            framework = adapter.framework
            return (framework, None) if isinstance(framework, str) else framework(layer)
    return None


_BASES = (VectorEnv, gym.Env)


def parts_of(env: Any) -> tuple[Any, Any]:
    """Return an environment and its parameters, which are None unless it comes in a pair `(env, params)`."""
    return env if type(env) is tuple and len(env) == 2 else (env, None)


def _by_class(cls: type) -> EnvAdapter | None:
    for base in cls.__mro__:
        adapter = None if base in _BASES else _adapters.get(base) or _adapters.get(_name_of(base))
        if adapter is not None:
            return adapter
    return None


def is_known_class(cls: type) -> bool:
    """Return whether instances of a class are environments, as far as the class can tell."""
    return issubclass(cls, _BASES) or _by_class(cls) is not None


def _name_of(cls: type) -> str:
    return f"{cls.__module__.partition('.')[0]}:{cls.__name__}"


def is_named(env: Any, *names: str) -> bool:
    """Return whether an environment's class is `"package:Class"`, without importing the package."""
    return _name_of(type(env)) in names
