"""`wrap`: the one call, which looks at what it is given and chooses a wrapper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypedDict, overload

import gymnasium as gym
from gymnasium.vector import VectorEnv, VectorWrapper

from arrayferry._core.convert import Namespace
from arrayferry._core.messages import refuse_unknown, warn_caller
from arrayferry._core.registry import find_framework
from arrayferry.errors import UnsupportedError
from arrayferry.wrappers import array_conversion as single
from arrayferry.wrappers._kinds import describe_argument, find_kind, hint_for, resolve
from arrayferry.wrappers.vector import array_conversion as vector

if TYPE_CHECKING:
    import jax
    import torch
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from arrayferry.wrappers._options import Options, SingleOptions, VectorOptions
    from arrayferry.wrappers._watch import SanitizeMode

    _Env = gym.Env[Any, Any]
    _VectorEnv = VectorEnv[Any, Any, Any]

    class _ManyAgents(Protocol):
        """An environment of PettingZoo, which need not be installed."""

        agents: Any

        def observation_space(self, agent: Any) -> Any: ...
        def action_space(self, agent: Any) -> Any: ...

    class _Steps(Protocol):
        @property
        def step(self) -> Any: ...

    # How type checkers tell the environments of other packages from Gymnasium's: by an attribute.
    class _StepsOnly(Protocol):  # gymnax, JaxMARL
        @property
        def step_env(self) -> Any: ...

    class _Sized(Protocol):  # Brax, Playground
        @property
        def observation_size(self) -> Any: ...

    class _Specified(Protocol):  # Jumanji
        @property
        def observation_spec(self) -> Any: ...

    class _Shaped(Protocol):  # pgx, XLand-MiniGrid
        @property
        def observation_shape(self) -> Any: ...

    class _Transitions(Protocol):  # FuncEnv
        @property
        def transition(self) -> Any: ...

    # A single one, alone or with its parameters; many may be of any class that a user has registered.
    _Single = _StepsOnly | _Sized | _Specified | _Shaped | _Transitions | tuple[Any, Any]
    _Foreign = _Steps | _Single

    class _Source(TypedDict, total=False):
        env_xp: Namespace | None
        env_device: Any

    class _SingleOptions(SingleOptions, _Source): ...

    class _VectorOptions(VectorOptions, _Source): ...

    class _AgentsOptions(Options, _Source): ...

    class _TensorDictOptions(SingleOptions, VectorOptions, _Source): ...


__all__ = ["wrap"]


@overload
def wrap(
    env: _Env, to: Literal["torch"], device: Any = None, **options: Unpack[_SingleOptions]
) -> single.ArrayConversion[torch.Tensor]: ...
@overload
def wrap(
    env: _Env, to: Literal["jax"], device: Any = None, **options: Unpack[_SingleOptions]
) -> single.ArrayConversion[jax.Array]: ...
@overload
def wrap(
    env: _Env, to: Literal["numpy"], device: Any = None, **options: Unpack[_SingleOptions]
) -> single.ArrayConversion[NDArray[Any]]: ...
@overload
def wrap(
    env: _VectorEnv, to: Literal["torch"], device: Any = None, **options: Unpack[_VectorOptions]
) -> vector.ArrayConversion[torch.Tensor]: ...
@overload
def wrap(
    env: _VectorEnv, to: Literal["jax"], device: Any = None, **options: Unpack[_VectorOptions]
) -> vector.ArrayConversion[jax.Array]: ...
@overload
def wrap(
    env: _VectorEnv, to: Literal["numpy"], device: Any = None, **options: Unpack[_VectorOptions]
) -> vector.ArrayConversion[NDArray[Any]]: ...
@overload
def wrap(
    env: _Env, to: Namespace, device: Any = None, **options: Unpack[_SingleOptions]
) -> single.ArrayConversion[Any]: ...
@overload
def wrap(
    env: _VectorEnv, to: Namespace, device: Any = None, **options: Unpack[_VectorOptions]
) -> vector.ArrayConversion[Any]: ...
@overload
def wrap(env: _ManyAgents, to: Namespace, device: Any = None, **options: Unpack[_AgentsOptions]) -> Any: ...
@overload
def wrap(
    env: _Foreign,
    to: Literal["torch"],
    device: Any = None,
    *,
    num_envs: int,
    **options: Unpack[_VectorOptions],
) -> vector.ArrayConversion[torch.Tensor]: ...
@overload
def wrap(
    env: _Foreign, to: Literal["jax"], device: Any = None, *, num_envs: int, **options: Unpack[_VectorOptions]
) -> vector.ArrayConversion[jax.Array]: ...
@overload
def wrap(
    env: _Foreign,
    to: Literal["numpy"],
    device: Any = None,
    *,
    num_envs: int,
    **options: Unpack[_VectorOptions],
) -> vector.ArrayConversion[NDArray[Any]]: ...
@overload
def wrap(
    env: _Foreign, to: Namespace, device: Any = None, *, num_envs: int, **options: Unpack[_VectorOptions]
) -> vector.ArrayConversion[Any]: ...
@overload
def wrap(env: _Single, to: Namespace, device: Any = None, **options: Unpack[_SingleOptions]) -> Any: ...
@overload
def wrap(
    env: _Env | _VectorEnv | _Foreign,
    to: Namespace,
    device: Any = None,
    *,
    as_tensordict: bool,
    num_envs: int | None = None,
    **options: Unpack[_TensorDictOptions],
) -> Any: ...
def wrap(
    env: Any,
    to: Namespace,
    device: Any = None,
    *,
    env_xp: Namespace | None = None,
    env_device: Any = None,
    copy: bool | None = None,
    dtypes: Mapping[Any, Any] | Literal["space"] | None = None,
    reward_dtype: Any = None,
    spaces: Literal["env", "target"] = "env",
    scalars: Literal["python", "target"] | None = None,
    dense_final: bool | None = None,
    as_tensordict: bool | None = None,
    sanitize: SanitizeMode | None = None,
    num_envs: int | None = None,
    **unknown: NoReturn,
) -> Any:
    """Let an agent of any framework use an environment of any other.

    Args:
        env: an environment of any framework: Gymnasium's, single or vector; PettingZoo's, parallel or AEC;
            one written in JAX, as its package makes it, alone or as a pair `(env, params)`: see
            `arrayferry.envs`; or dm_env's.
        to: the agent's framework, by name or as a module.
        device: where the agent's arrays go; the rows of a vector environment may go to many devices, even of
            other processes: pass a `jax.sharding.NamedSharding`, or a torch `DeviceMesh` and its placements.
        env_xp: the environment's framework; None to detect it.
        env_device: where actions go.
        copy: None for arrays that are yours, True to always copy, False to share memory or raise.
        dtypes: casts to make on the way out, such as `{"float64": "float32"}`; or `"space"` to cast
            observations, with checks, to the dtypes that their space declares.
        reward_dtype: the dtype to cast the reward to, and only the reward.
        spaces: `"env"` for the environment's own spaces; `"target"` for spaces of the agent's arrays.
        scalars: single environments only; `"target"` to get rewards and dones as arrays.
        dense_final: vector environments only; True to get `final_obs` as one batch.
        as_tensordict: torch only; True to get observations, and optionally pass actions, as TensorDicts.
        sanitize: True to watch what crosses the boundary and warn of findings, `"raise"` to raise them, False
            not to watch; None for the mode that `arrayferry.sanitize()` has set.
        num_envs: for environments written in JAX (`arrayferry.envs`): how many of them to step together as a
            vector environment; None for a single one.
        **unknown: refused, naming the option that was probably meant.

    Returns:
        An `ArrayConversion` for single or for vector environments, a `ParallelArrayConversion` or an
        `AECArrayConversion`.

    Example:
        >>> import arrayferry, gymnasium as gym
        >>> env = arrayferry.wrap(gym.make("CartPole-v1"), "torch")
        >>> obs, info = env.reset(seed=123)
        >>> obs
        tensor([ 0.0182, -0.0446, -0.0280, -0.0316])
    """
    given = env
    env, wrapper = _adapted(given, num_envs)
    is_ours = env is not given and hasattr(env, "read_on_host")  # nobody else sees what it returns
    kind, *own_options = _OWN_OPTIONS.get(wrapper, ("an environment of this kind",))
    options: dict[str, Any] = {"env_device": env_device, "copy": copy, "dtypes": dtypes, "spaces": spaces}
    options |= {"reward_dtype": reward_dtype, "sanitize": sanitize}
    own = {"scalars": scalars, "dense_final": dense_final, "as_tensordict": as_tensordict}
    for name, value in own.items():
        if name in own_options and value is not None:
            options[name] = value
        elif value is not None and value != _DEFAULTS[name]:
            unknown[name] = value  # type: ignore[assignment]  # it is refused
    refuse_unknown(unknown, dict.fromkeys(["device", "env_xp", *options, *own_options, "num_envs"]), of=kind)
    if env_xp is None and env_device is None:
        env_xp = getattr(type(env), "action_xp", None)
    if is_ours and copy is not False and find_framework(to).name != "jax":
        env.read_on_host()
    return wrapper(env, env_xp, to, target_device=device, **options)


# For each wrapper: what its environments are called, and the options that it has besides the common ones.
_OWN_OPTIONS: dict[Any, tuple[str, ...]] = {
    single.ArrayConversion: ("a single environment", "scalars", "as_tensordict"),
    vector.ArrayConversion: ("a vector environment", "dense_final", "as_tensordict"),
}


# What may be passed for an environment of any kind, because it asks for nothing.
_DEFAULTS = {"scalars": "python", "dense_final": False, "as_tensordict": False}


def _adapted(env: Any, num_envs: int | None) -> tuple[Any, Any]:
    """Return an environment of any kind as one that a wrapper of ours takes, and that wrapper."""
    kind = find_kind(env)
    if kind is not None and kind.adapt is not None:
        env, num_envs = resolve(kind.adapt)(env, num_envs), None
        kind = find_kind(env)
    has_wrapper = kind is not None and kind.wrapper is not None
    if not has_wrapper and not isinstance(env, (VectorEnv, gym.Env)):
        what = f"{describe_argument(env)} is not a Gymnasium environment"
        raise UnsupportedError(what, hint_for(env))
    if num_envs is not None:
        _refuse_number(num_envs, env, "PettingZoo" if has_wrapper else "Gymnasium")
    if kind is not None and kind.wrapper is not None:
        return env, resolve(kind.wrapper)
    inside = find_kind(env.unwrapped) if isinstance(env, VectorWrapper) else None
    if inside is not None and inside.adapt is not None and inside.hint is not None:
        warn_caller(f"{type(env.unwrapped).__qualname__}: {inside.hint}", UserWarning)
    # Some native vector environments are instances of both classes; they act as vector environments.
    return env, vector.ArrayConversion if isinstance(env, VectorEnv) else single.ArrayConversion


def _refuse_number(num_envs: int, env: Any, package: str) -> NoReturn:
    name = getattr(getattr(env, "spec", None), "id", type(env.unwrapped).__qualname__)
    what = f"num_envs={num_envs}, but {name} is a {package} environment"
    is_single = isinstance(env, gym.Env) and not isinstance(env, VectorEnv)
    hint = f"pass gymnasium.make_vec(id, num_envs={num_envs})" if is_single else "leave num_envs out"
    raise UnsupportedError(f"{what}; num_envs is for environments written in JAX", hint)
