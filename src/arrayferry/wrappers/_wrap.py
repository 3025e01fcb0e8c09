"""`wrap`: the one call, which looks at what it is given and chooses."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, overload

import gymnasium as gym
from gymnasium.vector import VectorEnv

from arrayferry.errors import UnsupportedError
from arrayferry.wrappers import array_conversion as single
from arrayferry.wrappers._boundary import Namespace
from arrayferry.wrappers.vector import array_conversion as vector

if TYPE_CHECKING:
    import jax
    import torch
    from numpy.typing import NDArray

__all__ = ["wrap"]

_GIVEN = ("env", "target_xp", "target_device")
_Env = gym.Env[Any, Any]
_VectorEnv = VectorEnv[Any, Any, Any]


@overload
def wrap(
    env: _Env, to: Literal["torch"], device: Any = None, **options: Any
) -> single.ArrayConversion[torch.Tensor]: ...
@overload
def wrap(
    env: _Env, to: Literal["jax"], device: Any = None, **options: Any
) -> single.ArrayConversion[jax.Array]: ...
@overload
def wrap(
    env: _Env, to: Literal["numpy"], device: Any = None, **options: Any
) -> single.ArrayConversion[NDArray[Any]]: ...
@overload
def wrap(
    env: _VectorEnv, to: Literal["torch"], device: Any = None, **options: Any
) -> vector.ArrayConversion[torch.Tensor]: ...
@overload
def wrap(
    env: _VectorEnv, to: Literal["jax"], device: Any = None, **options: Any
) -> vector.ArrayConversion[jax.Array]: ...
@overload
def wrap(
    env: _VectorEnv, to: Literal["numpy"], device: Any = None, **options: Any
) -> vector.ArrayConversion[NDArray[Any]]: ...
@overload
def wrap(env: _Env, to: Namespace, device: Any = None, **options: Any) -> single.ArrayConversion[Any]: ...
@overload
def wrap(
    env: _VectorEnv, to: Namespace, device: Any = None, **options: Any
) -> vector.ArrayConversion[Any]: ...
def wrap(env: Any, to: Namespace, device: Any = None, **options: Any) -> Any:
    """Let an agent of any framework use an environment of any other.

    Args:
        env: a Gymnasium environment, single or vector, of any framework: it is learned from what the
            environment returns.
        to: the agent's framework, by name or as a module.
        device: where the agent's arrays go.
        **options: those of `wrappers.ArrayConversion` or `wrappers.vector.ArrayConversion`: `copy`,
            `dtypes`, `spaces`, `env_xp`, `env_device`; `scalars` for single environments, `dense_final`
            for vector ones. And `sanitize`: True to watch what crosses and warn of what is wrong with it,
            `"raise"` to raise it; the default is what `arrayferry.sanitize()` has set.

    Example:
        >>> import arrayferry, gymnasium as gym
        >>> env = arrayferry.wrap(gym.make("CartPole-v1"), "torch")
        >>> obs, info = env.reset(seed=123)
        >>> obs
        tensor([ 0.0182, -0.0446, -0.0280, -0.0316])
    """
    # Some native vector environments are both to isinstance: they act as vector environments.
    kind: Any = vector if isinstance(env, VectorEnv) else single
    if not isinstance(env, (gym.Env, VectorEnv)):
        raise UnsupportedError(
            f"{type(env).__qualname__} is no Gymnasium environment",
            "pass a gymnasium.Env or a gymnasium.vector.VectorEnv, such as gym.make(...) returns",
        )
    known = [name for name in signature(kind.ArrayConversion).parameters if name not in _GIVEN]
    for name in options.keys() - set(known):
        what = f"{name} is no option for a {'vector' if kind is vector else 'single'} environment"
        raise UnsupportedError(what, f"the options are {', '.join(known)}")
    arguments = {"env_xp": None, "target_xp": to, "target_device": device, **options}
    return kind.ArrayConversion(env, **arguments)
