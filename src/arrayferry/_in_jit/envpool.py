"""EnvPool's own functions for compiled code, and the checks that they lack.

They take any bytes as an action, and the same state any number of times. So a callback, which carries none of
the values, asks before each step whether the state is the newest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import VectorEnv

from arrayferry._in_jit.callback import guarded
from arrayferry._in_jit.declared import Array, Leaf, part_of_example
from arrayferry._in_jit.turns import STATE, Turns, refuse_state, seed_of
from arrayferry.errors import UnsupportedError

if TYPE_CHECKING:
    import jax

    # The state as of any environment, and EnvPool's handle. The key names the environment when a step is
    # traced: another's would write into memory of other shapes.
    State = dict[str, tuple[jax.Array, jax.Array]]

__all__ = ["functions", "own_step"]


def own_step(env: Any) -> tuple[Any, Callable[..., Any]] | None:
    """Return EnvPool's handle and step function; None if it has none here, or one that cannot be used."""
    import jax

    if not isinstance(env, VectorEnv) or not hasattr(type(env), "xla"):
        return None
    if env.is_async:  # type: ignore[attr-defined]
        what = "EnvPool with batch_size steps only some of its environments at a time"
        raise UnsupportedError(what, "make it without batch_size")
    # Each of several devices would take the step.
    if env.config["max_num_players"] > 1 or jax.device_count() > 1:  # type: ignore[attr-defined]
        return None
    arrays = [*env.spec.state_array_spec.values(), *env.spec.action_array_spec.values()]  # type: ignore[union-attr]
    # It writes its own dtypes into whatever memory it is given.
    if any(jax.dtypes.canonicalize_dtype(one.dtype) != one.dtype for one in arrays):
        return None
    try:
        handle, _, _, step = env.xla()  # type: ignore[attr-defined]
    except RuntimeError:  # not on this platform
        return None
    return handle, step


def functions(
    env: Any, handle: Any, own: Callable[..., Any], names: tuple[str, ...], callback: Callable[..., Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return `reset` and `step`, as `in_jit` does.

    Args:
        env: EnvPool's environment.
        handle: the first value that its `xla()` returns.
        own: the last value, the step function.
        names: the infos to return.
        callback: how to call the host.
    """
    import jax
    import jax.numpy as jnp

    declared = _declare_action(env)
    zeros = {leaf.path: jnp.zeros(leaf.shape, leaf.dtype) for leaf in declared}
    _, (seen, *_, infos) = jax.eval_shape(own, handle, zeros)
    if unknown := [name for name in names if name not in infos]:
        raise UnsupportedError(
            f"EnvPool has no info {unknown[0]!r}", f"there are: {', '.join(infos)}", "info"
        )
    obs = part_of_example("obs", jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), seen))
    writers = [leaf.writer() for leaf in obs.leaves]
    turns, start = Turns(env), [STATE, Leaf("handle", handle.shape, handle.dtype)]
    name = f"EnvPool {turns.number}"

    def opened(state: Any) -> Any:
        if not isinstance(state, dict) or name not in state:
            refuse_state(is_other=True)
        return state[name]

    def reset_on_host(outs: list[Array], after: Array, handle: Array) -> None:
        with turns.lock:
            if after.any():
                turns.check(after)
            values = obs.flatten(turns.take(env.reset)[0])
            outs[0][...], outs[1][...] = turns.newest, handle
            for write, out, value in zip(writers, outs[2:], values):
                write(out, value)

    def check_on_host(outs: list[Array], state: Array, handle: Array, in_range: Array) -> None:
        with turns.lock:
            turns.check(state)
            if not in_range.all():
                raise UnsupportedError("an integer outside its space", "stay within the space", "action")
            turns.count.calls += 1
            outs[0][...], outs[1][...] = turns.newest, handle

    def reset(key: jax.Array, state: State | None = None) -> tuple[State, Any]:
        call = partial(callback, reset_on_host, [*start, *obs.leaves])
        # EnvPool was seeded when it was made; the seed is passed on only so that `vmap` over it is refused.
        seedless = guarded("reset", lambda old, handle, seed: call(old, handle))
        given = (jnp.zeros(STATE.shape, STATE.dtype), handle) if state is None else opened(state)
        new, new_handle, *values = seedless(*given, seed_of(key))
        return {name: (new, new_handle)}, obs.build(iter(values))

    def step(state: State, action: Any) -> tuple[State, Any]:
        members, in_range = _members(env, declared, action)

        def call(old: Any, old_handle: Any, members: Any, in_range: Any) -> Any:
            new, new_handle = callback(check_on_host, start, old, old_handle, in_range)
            return new, own(new_handle, members)

        new, (new_handle, values) = guarded("step", call)(*opened(state), members, in_range)
        *rest, info = values
        return {name: (new, new_handle)}, (*rest, {one: info[one] for one in names})

    return reset, step


def _declare_action(env: Any) -> list[Leaf]:
    specs = {key: one for key, one in env.spec.action_array_spec.items() if not key.endswith("env_id")}
    shapes = {key: tuple(size for size in one.shape if size != -1) for key, one in specs.items()}
    return [Leaf(key, (env.num_envs, *shapes[key]), np.dtype(one.dtype)) for key, one in specs.items()]


def _members(env: Any, declared: list[Leaf], action: Any) -> tuple[dict[str, jax.Array], jax.Array]:
    """Return an action's leaves as EnvPool reads them, by its names; and where integers are in range."""
    import jax
    import jax.numpy as jnp

    keyed = jax.tree_util.tree_flatten_with_path(
        action if isinstance(action, dict) else {declared[-1].path: action}
    )[0]
    given = {".".join(str(getattr(key, "key", key)) for key in keys): value for keys, value in keyed}
    names = [leaf.path for leaf in declared]
    if given.keys() != set(names):
        what = f"{list(given)} where {names} was declared"
        raise UnsupportedError(what, "it must have the parts of its space", "action")
    members, in_range = {}, jnp.ones(env.num_envs, bool)
    for leaf in declared:
        spec = env.spec.action_array_spec[leaf.path]
        value = leaf.checked(given[leaf.path], "EnvPool would read other memory")
        member = value.astype(leaf.dtype)
        if leaf.dtype.kind in "iu":
            member = jnp.clip(member, *np.asarray([spec.minimum, spec.maximum], leaf.dtype))
            in_range &= (member == value).reshape(env.num_envs, -1).all(1)
        members[leaf.path] = member
    return members, in_range
