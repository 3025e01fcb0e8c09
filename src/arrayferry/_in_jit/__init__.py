"""`in_jit`: any Gymnasium environment inside `jax.jit`, `lax.scan`, `while_loop` and `cond`.

    declared.py   what a step returns, declared in advance, and checked when it is there
    host.py       the environment, where Python runs
    turns.py      the newest state of an environment, whoever steps it
    callback.py   a call to the host in compiled code, by either of JAX's callbacks

A step is a callback to the host. The state, which each call takes and returns, puts the steps in order: the
host knows which state of an environment is the newest, and refuses every other. What the environment returns
is checked against what its spaces declare before XLA gets it, because XLA would take any bytes it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from arrayferry._frameworks.jax import jax
from arrayferry._in_jit.callback import (
    buffers_work,
    by_buffers,
    guarded,
    stop_rollouts_at_exit,
    via_io_callback,
)
from arrayferry._in_jit.host import Host
from arrayferry._in_jit.turns import STATE, seed_of
from arrayferry.envs.adapters import adapter_of
from arrayferry.errors import NotInstalledError, UnsupportedError

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.vector import VectorEnv

    State = Any
    Reset = Callable[..., tuple[State, Any]]
    Step = Callable[[State, Any], tuple[State, tuple[Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]]]

__all__ = ["in_jit"]


def in_jit(
    env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any],
    *,
    info: str | Iterable[str] | Mapping[str, Any] = (),
    autoreset: bool = False,
) -> tuple[Reset, Step]:
    """Return `reset` and `step` functions of an environment that work inside `jax.jit`.

    Both take and return a state, which puts the calls in order: `reset(key)` starts one, and each
    `step(state, action)` uses one up. Using a state twice is an error, not a second step; so is using one
    after the environment was reset or stepped by other means, such as directly. Call
    `reset(key, state)` to reset after the steps that led to `state`, if both are in one compiled function.
    The seed that a key gives is `int(jax.random.bits(key, dtype="uint32") >> 1)`, so that a Python loop can
    do the same.

    Rewards are JAX's default float; observations have the dtypes of the space, as far as JAX has them. An
    exception of the environment is raised as JAX's `JaxRuntimeError` with its message, and the state that was
    given can be used again, unless the step was taken and only its autoreset failed.

    Args:
        env: the environment, single or vector, of any framework. Its spaces must have fixed shapes.
            EnvPool's are refused: they have functions of their own, `env.xla()`.
        info: the name or names of the infos that `step` returns. Their shapes are those of a first reset and
            step, which are taken immediately; or give examples, such as `{"episode": {"r": np.zeros(8)}}`. In
            a step that lacks one, it is zeros. `"final_obs"`, which needs no first step, and of which an
            observation is an example, needs an environment that resets in the step that ends an episode.
        autoreset: for single environments, whether the step that ends an episode resets, and returns the next
            episode's first observation. Vector environments follow their own mode: `autoreset=True` is
            refused unless that is `SAME_STEP`, and `DISABLED` always.

    Returns:
        `reset(key, state=None) -> state, obs` and
        `step(state, action) -> state, (obs, reward, terminated, truncated, info)`.

    Raises:
        NotInstalledError: JAX is not installed.
        UnsupportedError: a space has no fixed shape, an info is unknown, or a vector environment is EnvPool's
            or does not reset by itself, or not as asked; or, when a step is traced, the action does not have
            the structure, shapes and kinds of its space, or the step is under `vmap`, `pmap`, `shard_map` or
            `grad`.

    Example:
        >>> import arrayferry, gymnasium as gym, jax
        >>> reset, step = arrayferry.in_jit(gym.make("CartPole-v1"), autoreset=True)
        >>> @jax.jit
        ... def rollout(key):
        ...     state, obs = reset(key)
        ...     actions = jax.numpy.tile(jax.numpy.array([0, 1]), 50)
        ...     return jax.lax.scan(step, state, actions)[1]
        >>> obs, reward, terminated, truncated, info = rollout(jax.random.key(0))
        >>> obs.shape, float(reward.sum())
        ((100, 4), 100.0)
    """
    try:
        import jax
    except ImportError as error:
        raise NotInstalledError("in_jit needs JAX", "pip install jax") from error
    if not isinstance(info, Mapping):
        info = (info,) if isinstance(info, str) else tuple(info or ())
    if hint := adapter_of(env).xla:
        what = f"{type(env).__qualname__} has its own functions for compiled code, without callbacks"
        raise UnsupportedError(what, hint)
    stop_rollouts_at_exit()
    callback = by_buffers if buffers_work() else via_io_callback
    reset, step = _functions(Host(env, info, autoreset), callback)
    # Compiled here, so that a call outside of `jit` is not compiled each time.
    return jax.jit(reset), jax.jit(step)


def _functions(host: Host, callback: Callable[..., Any]) -> tuple[Reset, Step]:
    def reset(key: jax.Array, state: jax.Array | None = None) -> tuple[jax.Array, Any]:
        after = jax.numpy.zeros(STATE.shape, STATE.dtype) if state is None else state
        seed = seed_of(key)
        call = partial(callback, host.reset, [STATE, *host.obs.leaves])
        new, *values = guarded("reset", call)(after, seed)
        return new, host.obs.build(values)

    def step(state: jax.Array, action: Any) -> tuple[jax.Array, Any]:
        leaves = [
            declared.checked(leaf, "the action must match its space")
            for declared, leaf in zip(host.action.leaves, host.action.flatten(action))
        ]
        call = partial(callback, host.step, [STATE, *host.values.leaves])
        new, *values = guarded("step", call)(state, *leaves)
        return new, host.values.build(values)

    return reset, step
