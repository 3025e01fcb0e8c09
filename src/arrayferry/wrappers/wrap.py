"""`wrap`: the one call, which looks at what it is given and chooses a wrapper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeAlias, overload

from gymnasium.vector import VectorEnv

from arrayferry._core.convert import Namespace
from arrayferry._core.messages import refuse_unknown
from arrayferry._core.registry import find_framework
from arrayferry.envs import JaxEnv, JaxVectorEnv
from arrayferry.envs.adapters import adapter_of
from arrayferry.envs.hints import describe_argument, hint_for
from arrayferry.envs.opening import open_environment
from arrayferry.envs.simulators import SimulatorVectorEnv
from arrayferry.errors import UnsupportedError
from arrayferry.wrappers.array_conversion import ArrayConversion as View
from arrayferry.wrappers.vector.array_conversion import ArrayConversion as Views

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.vector import AutoresetMode
    from jax import Array
    from numpy.typing import NDArray
    from torch import Tensor
    from typing_extensions import Required, Unpack

    from arrayferry.wrappers.base import SingleOptions, VectorOptions
    from arrayferry.wrappers.watch import SanitizeMode

    # How type checkers tell environments apart: by an attribute.
    class Steps(Protocol):
        @property
        def step(self) -> Any: ...

    class StepsOnly(Protocol):  # gymnax
        @property
        def step_env(self) -> Any: ...

    class Sized(Protocol):  # Brax, Playground
        @property
        def observation_size(self) -> Any: ...

    class Specified(Protocol):  # Jumanji, dm_env
        @property
        def observation_spec(self) -> Any: ...

    class Shaped(Protocol):  # pgx, XLand-MiniGrid
        @property
        def observation_shape(self) -> Any: ...

    class Transitions(Protocol):  # FuncEnv
        @property
        def transition(self) -> Any: ...

    class Batched(Protocol):  # Gymnasium's vector environments, simulators
        @property
        def num_envs(self) -> Any: ...

    class ManyAgents(Protocol):  # PettingZoo, JaxMARL
        agents: Any

    # One environment, alone or with its parameters; many may be of any class that a user registered.
    One: TypeAlias = StepsOnly | Sized | Specified | Shaped | Transitions | tuple[Any, Any]
    Single: TypeAlias = gym.Env[Any, Any] | One
    Many: TypeAlias = Steps | One
    Torch: TypeAlias = Literal["torch"]
    Jax: TypeAlias = Literal["jax"]
    NumPy: TypeAlias = Literal["numpy"]

    class Given(SingleOptions, VectorOptions, total=False):
        """Those of all wrappers: one that does not apply may have its default value."""

        env_xp: Namespace | None
        env_device: Any
        autoreset_mode: AutoresetMode | str | None

    class ManyGiven(Given, total=False):
        """The same, for environments that `wrap` makes a vector of."""

        num_envs: Required[int]


__all__ = ["wrap"]

_IN_JAX = JaxEnv, JaxVectorEnv


@overload
def wrap(env: ManyAgents, to: Namespace, device: Any = None, **options: Unpack[Given]) -> Any: ...
@overload
def wrap(env: Batched, to: Torch, device: Any = None, **options: Unpack[Given]) -> Views[Tensor]: ...
@overload
def wrap(env: Batched, to: Jax, device: Any = None, **options: Unpack[Given]) -> Views[Array]: ...
@overload
def wrap(env: Batched, to: NumPy, device: Any = None, **options: Unpack[Given]) -> Views[NDArray[Any]]: ...
@overload
def wrap(env: Batched, to: Namespace, device: Any = None, **options: Unpack[Given]) -> Views[Any]: ...
@overload
def wrap(env: Single, to: Torch, device: Any = None, **options: Unpack[Given]) -> View[Tensor]: ...
@overload
def wrap(env: Single, to: Jax, device: Any = None, **options: Unpack[Given]) -> View[Array]: ...
@overload
def wrap(env: Single, to: NumPy, device: Any = None, **options: Unpack[Given]) -> View[NDArray[Any]]: ...
@overload
def wrap(env: Single, to: Namespace, device: Any = None, **options: Unpack[Given]) -> View[Any]: ...
@overload
def wrap(env: Many, to: Torch, device: Any = None, **options: Unpack[ManyGiven]) -> Views[Tensor]: ...
@overload
def wrap(env: Many, to: Jax, device: Any = None, **options: Unpack[ManyGiven]) -> Views[Array]: ...
@overload
def wrap(env: Many, to: NumPy, device: Any = None, **options: Unpack[ManyGiven]) -> Views[NDArray[Any]]: ...
@overload
def wrap(env: Many, to: Namespace, device: Any = None, **options: Unpack[ManyGiven]) -> Views[Any]: ...
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
    scalars: Literal["python", "target"] = "python",
    dense_final: bool = False,
    sanitize: SanitizeMode | None = None,
    num_envs: int | None = None,
    autoreset_mode: AutoresetMode | str | None = None,
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
        sanitize: True to watch what crosses the boundary and warn of findings, `"raise"` to raise them, False
            not to watch; None for the mode that `arrayferry.sanitize()` has set.
        num_envs: for environments written in JAX (`arrayferry.envs`): how many of them to step together as a
            vector environment; None for a single one.
        autoreset_mode: when the environments that `wrap` makes itself, from ones written in JAX and from
            simulators, start their next episodes; None for SAME_STEP. Others follow the mode they were made
            with.
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
    given, env = env, open_environment(env, num_envs, autoreset_mode)
    kind = adapter_of(env).kind
    if kind is None:
        raise UnsupportedError(f"{describe_argument(env)} is not a Gymnasium environment", hint_for(env))
    if kind == "vector" and not isinstance(env, VectorEnv):
        what = f"{describe_argument(env)} is for a single environment, and is around a vector of them"
        raise UnsupportedError(what, "wrap what it is around, or use a wrapper of gymnasium.wrappers.vector")
    options: dict[str, Any] = {"env_device": env_device, "copy": copy, "dtypes": dtypes}
    options |= {"reward_dtype": reward_dtype, "spaces": spaces, "sanitize": sanitize}
    own = ("single", "scalars", scalars, "python"), ("vector", "dense_final", dense_final, False)
    for its_kind, name, value, default in own:
        if kind == its_kind:
            options[name] = value
        elif value != default:  # which asks for nothing
            unknown[name] = value  # type: ignore[assignment]  # it is refused
    known = ["device", "env_xp", *options, "num_envs", "autoreset_mode"]
    has_many = kind in ("parallel", "aec")
    refuse_unknown(
        unknown, known, of="an environment of many agents" if has_many else f"a {kind} environment"
    )
    if env is not given:  # nobody else sees what it returns
        if isinstance(env, SimulatorVectorEnv):
            env.leave_copies_to_wrapper()
        elif copy is not False and find_framework(to).name != "jax" and isinstance(env, _IN_JAX):
            env.read_on_host()
    return _wrapper_for(kind)(env, env_xp, to, target_device=device, **options)


def _wrapper_for(kind: str) -> Any:
    if kind in ("parallel", "aec"):
        from arrayferry.wrappers import pettingzoo  # which needs PettingZoo

        return pettingzoo.ParallelArrayConversion if kind == "parallel" else pettingzoo.AECArrayConversion
    return Views if kind == "vector" else View
