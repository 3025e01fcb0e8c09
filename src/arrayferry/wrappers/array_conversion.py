"""The wrapper for single environments, and the function that Gymnasium's users extend.

In Gymnasium, `array_conversion` is a `functools.singledispatch`. Here `convert` consults its table, so that
registered functions apply wherever a value is converted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from arrayferry._core.convert import Converter, Namespace, convert, convert_unregistered, leaf_tables
from arrayferry._core.messages import refuse_choice
from arrayferry._core.type_cache import clear_type_caches
from arrayferry.wrappers.base import (
    ArrayT,
    ConversionWrapper,
    module_name_to_namespace,
    module_namespace,
    space_property,
)

if TYPE_CHECKING:
    from functools import _SingleDispatchCallable

    from typing_extensions import Unpack

    from arrayferry.wrappers.base import Options

__all__ = [
    "ArrayConversion",
    "Array",
    "Device",
    "array_conversion",
    "module_name_to_namespace",
    "module_namespace",
]

_T = TypeVar("_T")

Array = Any  # as in Gymnasium
Device = Any


class ArrayConversion(ConversionWrapper[ArrayT], gym.Wrapper[ArrayT, Any, Any, Any], RecordConstructorArgs):
    """An environment of one framework, for an agent of another.

    Observations and infos come out in the agent's framework, rewards as `float`, terminated and
    truncated as `bool`. Actions go in as members of the action space, in the environment's framework.
    What the agent receives is its own: nothing the environment does later changes it.

    Args:
        env: the environment to wrap.
        env_xp: its framework, as a module or by name; None to detect it.
        target_xp: the agent's framework, as a module or by name.
        env_device: where actions go.
        target_device: where observations and infos go.
        copy: None for arrays that are yours, True to always copy, False to share memory or raise.
        dtypes: casts to make on the way out, such as `{"float64": "float32"}`; or `"space"` to cast
            observations, with checks, to the dtypes that their space declares.
        reward_dtype: the dtype to cast the reward to, and only the reward.
        spaces: `"env"` for the environment's own spaces; `"target"` for spaces whose `sample` returns, and
            whose `contains` accepts, the agent's arrays.
        scalars: `"python"` for `float` and `bool`; `"target"` to get rewards and dones as arrays too.
        sanitize: True to watch what crosses the boundary and warn of findings, `"raise"` to raise them, False
            not to watch; None for the mode that `arrayferry.sanitize()` has set.

    Example:
        >>> import gymnasium as gym, numpy as np, torch
        >>> env = ArrayConversion(gym.make("CartPole-v1"), env_xp=np, target_xp=torch)
        >>> obs, info = env.reset(seed=123)
        >>> obs
        tensor([ 0.0182, -0.0446, -0.0280, -0.0316])
        >>> obs, reward, terminated, truncated, info = env.step(torch.tensor(1))
        >>> type(obs), reward, terminated, truncated
        (<class 'torch.Tensor'>, 1.0, False, False)
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        env_xp: Namespace | None,
        target_xp: Namespace,
        env_device: Any = None,
        target_device: Any = None,
        *,
        scalars: Literal["python", "target"] = "python",
        **options: Unpack[Options],
    ) -> None:
        refuse_choice("scalars", scalars, "python", "target")
        self._scalars, self._own_options = scalars, {"scalars": scalars}
        super().__init__(env, env_xp, target_xp, env_device, target_device, **options)

    _wraps, _kind, _for_others = gym.Env, "single", "vector.{}"

    if TYPE_CHECKING:

        def step(self, action: Any) -> tuple[ArrayT, float, bool, bool, dict[str, Any]]:
            """Take a step with an action of any framework."""
            ...
    else:
        step = ConversionWrapper._step
        observation_space, action_space = map(space_property, ("observation_space", "action_space"))


def _registrable(function: Callable[..., _T]) -> _SingleDispatchCallable[_T]:
    """Give a function the `register`, `dispatch` and `registry` of a `functools.singledispatch`."""
    table: Any = singledispatch(convert_unregistered)

    def register(cls: Any, func: Any = None) -> Any:
        """Register a function `(value, xp, device=None)` for a type, an ABC, or its annotated type."""
        done = table.register(cls, func)
        if func is None and done is not cls:  # a decorator
            return lambda func: register(cls, func)
        clear_type_caches()
        return done

    def find(cls: type) -> Callable[[Any, Converter], Any] | None:
        registered = table.dispatch(cls)
        if registered is convert_unregistered:
            return None
        return lambda value, to: registered(value, module_namespace(to.framework), to.device)

    leaf_tables.append(find)
    registrable: Any = function
    vars(registrable).update(register=register, dispatch=table.dispatch, registry=table.registry)
    return registrable  # type: ignore[no-any-return]


@_registrable
def array_conversion(value: Any, xp: Namespace, device: Device | None = None) -> Any:
    """Convert a value to the framework `xp`: `convert`, by the name that Gymnasium gave it.

    Extend it as in Gymnasium: registered functions apply wherever a value is converted. They get the
    namespace and the device. Functions registered by `arrayferry.register_leaf` take precedence, and get the
    converter, which also knows the other options.

    >>> import numpy as np
    >>> array_conversion({"reward": 1.5, "mission": "go left"}, np)
    {'reward': array(1.5), 'mission': 'go left'}
    >>> class Celsius(float): ...
    >>> @array_conversion.register(Celsius)
    ... def _(value, xp, device=None):
    ...     return xp.asarray(value + 273.15, device=device)
    >>> array_conversion([Celsius(1.0)], np)
    [array(274.15)]
    """
    return convert(value, xp, device)


# Gymnasium also names these after their source: `numpy_to_torch`, `jax_to_torch`. Ours take any source.


def to_numpy(value: Any, device: Device | None = None) -> Any:
    """Convert a value with arrays of any framework to NumPy."""
    return convert(value, "numpy", device)


def to_jax(value: Any, device: Device | None = None) -> Any:
    """Convert a value with arrays of any framework to JAX."""
    return convert(value, "jax", device)


def to_torch(value: Any, device: Device | None = None) -> Any:
    """Convert a value with arrays of any framework to torch."""
    return convert(value, "torch", device)
