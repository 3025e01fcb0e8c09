"""One environment or many, in one compiled call for a reset and one for a step.

The *carry* is everything that passes from one step to the next: the package's state, and for each environment
a key, the number of steps since its reset, and whether its episode is over. It is kept as a flat tuple of
arrays, because every container at the boundary of a compiled function costs JAX time, and it is donated: a
step reuses its memory. Nothing else that is returned shares that memory.

Keys derive from the seed. An environment begins with `jax.random.PRNGKey(seed)`, a raw key of threefry2x32
whatever JAX's default is: under `vmap`, the rbg generators draw from the first key alone. Each reset does
`key, reset_key = jax.random.split(key)`, and step `t` of the episode, counted from 1, gets
`jax.random.fold_in(key, t + 1)`: `fold_in(key, 1)` is the next `reset_key`, as JAX splits keys by default.
So nothing that happens in an episode changes how the next one begins, and packages that draw no random
numbers in a step do not pay for keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from arrayferry._core.dtypes import can_hold
from arrayferry._core.messages import note_on
from arrayferry._core.registry import describe
from arrayferry._frameworks.jax import refuse_if_forked
from arrayferry.envs._interface import Interface, interface_of
from arrayferry.envs._packing import PackedArrays
from arrayferry.envs._spaces import is_outside, members_of, shape_of, space_of, untraced
from arrayferry.errors import OptionError, UnsupportedError

__all__ = ["Engine", "Outcome", "copied", "keys_of", "select"]


class Carry(NamedTuple):
    """Everything that passes from one step to the next."""

    state: Any
    key: Any
    time: Any
    done: Any


class Outcome(NamedTuple):
    """What a step returns.

    Attributes:
        obs: the observation after the step, or of the next episode.
        reward: of the step.
        terminated: whether the episode came to its end.
        truncated: whether it was cut short.
        info: of the step, or of the reset.
        over: which environments were reset in this step; None if none ever are.
        final: the observation and the info with which their episodes ended, if any did; None unless
            `SAME_STEP`.
        status: for many, whether any environment was reset, the number of the first whose action was outside
            its space, or -1, and whether any episode was over before the step. For one, whether the action
            was outside its space, followed by reward, terminated and truncated, which are None above, if
            these are scalars.
    """

    obs: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any
    over: Any
    final: Any
    status: Any


class Engine:
    """The compiled functions of an environment. It holds no state of an episode, so copies share it.

    Args:
        env: the environment, or a pair `(env, params)`.
        num_envs: how many to step together; None for one, without a batch axis.
        autoreset_mode: when environments whose episodes are over are reset; a single one never is.
        max_episode_steps: the number of steps after which an episode is truncated.
        interface: what `interface_of` returns for the environment, if that is known already.
        is_wide: the setting of `jax_enable_x64` with which it was pickled; None for the current one.
    """

    def __init__(
        self,
        env: Any,
        num_envs: int | None,
        autoreset_mode: AutoresetMode,
        max_episode_steps: int | None,
        interface: Interface | None = None,
        is_wide: bool | None = None,
    ) -> None:
        import jax

        self._is_wide: bool = jax.config.jax_enable_x64 if is_wide is None else is_wide  # type: ignore[attr-defined]
        self.env, self.num_envs = env, num_envs
        self.autoreset_mode = autoreset_mode
        self.interface = interface_of(env) if interface is None else interface
        self.refuse_changes()
        self.max_episode_steps = max_episode_steps
        self.limit = self.interface.max_episode_steps if max_episode_steps is None else max_episode_steps
        # Compiled on their own as well, so that `_measure` and the functions that run share one trace.
        self._start_one, self._step_one = jax.jit(self._trace_start), jax.jit(self._trace_step)
        self._shapes = self._measure()
        self.observation_space = space_of(self._shapes[1], self.interface.observation_space)
        self.info_shapes = self._shapes[2:]
        is_single = num_envs is None
        self._begin_all = self._begin if is_single else jax.vmap(self._begin)
        # No step reads `done` of a single environment, nor of those reset in the step that ends the episode.
        self._keeps_done = not is_single and autoreset_mode is not AutoresetMode.SAME_STEP
        self._structure = jax.tree.structure(self._kept(self._shapes[0]))
        self.start = jax.jit(self._start)
        self._world_state = jax.jit(self.interface.world_state or (lambda state: None))
        self.restart = jax.jit(self._restart, donate_argnums=0)
        self.step = jax.jit(self._step_single if is_single else self._step_all_and_keep, donate_argnums=0)
        self.step_for_host = jax.jit(self._step_all_for_host, donate_argnums=0)
        # Until something large has been freed once, glibc may return a step's memory to the system after each
        # step, which then takes three times as long. Nothing writes to this array, so it occupies no memory.
        np.empty(8 << 20, np.uint8)

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = self.env, self.num_envs, self.autoreset_mode, self.max_episode_steps
        return Engine, (*arguments, None, self._is_wide)  # the arrays that are pickled with it are as wide

    def refuse_changes(self) -> None:
        """Refuse to go on in a forked process, or with another `jax_enable_x64` than in the beginning."""
        import jax

        refuse_if_forked()
        if jax.config.jax_enable_x64 != self._is_wide:  # type: ignore[attr-defined]
            what = f"jax_enable_x64 was {self._is_wide} when {self.interface.name} was made, and no longer is"
            raise UnsupportedError(what, "set it before you make the environment, and leave it")

    # ---- what is known before anything runs -----------------------------------------------------------

    def _measure(self) -> tuple[Carry, Any, dict[str, Any], dict[str, Any]]:
        """Return the shapes of one environment's carry and observation, and infos of a reset and a step."""
        import jax

        action = members_of(self.interface.action_space)
        begun, obs, reset_info = jax.eval_shape(self._start_one, keys_of([0])[0])
        carry, joined = None, _strong(begun)
        outcome: Any = None
        while jax.tree.leaves(carry) != jax.tree.leaves(joined):  # what is wider now may widen something else
            before, carry = (begun if carry is None else joined), joined
            after, outcome = jax.eval_shape(self._step_one, carry, action)
            joined = carry._replace(state=self._joined("state", before.state, after.state))
        obs = self._joined("obs", obs, outcome.obs)
        return joined, obs, *self._joined_infos(reset_info, outcome.info)

    def _joined(self, where: str, reset: Any, step: Any) -> Any:
        """Return the shapes of both, with the dtype that holds the other's values; refuse what has none."""
        import jax

        def joined(path: Any, old: Any, new: Any) -> Any:
            if (dtype := _joint_dtype(old, new)) is not None:
                return shape_of(old.shape, dtype)
            kinds = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in (old, new)]
            what = f"{self.interface.name} returns {kinds[0]} from a reset, and {kinds[1]} after a step"
            hint = "return one shape and one dtype from both, with astype() where they differ"
            raise UnsupportedError(what, hint, where=f"{where}{jax.tree_util.keystr(path)}")

        structures: list[Any] = [jax.tree.structure(tree) for tree in (reset, step)]
        if structures[0] != structures[1]:
            what = f"{self.interface.name} returns another structure after a step than from a reset"
            raise UnsupportedError(what, "return the same from both, as JAX needs it", where=where)
        return jax.tree_util.tree_map_with_path(joined, reset, step)

    def _joined_infos(
        self, reset: dict[str, Any], step: dict[str, Any], path: str = "info"
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the shapes of both; a part that is in both has a joint dtype, others may be in one alone."""
        reset, step = dict(reset), dict(step)
        for key in reset.keys() & step.keys():
            parts, where = (reset[key], step[key]), f"{path}[{key!r}]"
            if all(isinstance(part, dict) for part in parts):
                reset[key], step[key] = self._joined_infos(*parts, where)
            else:
                reset[key] = step[key] = self._joined(where, *parts)
        return _strong(reset), _strong(step)

    def batched_observation_space(self, count: int) -> Any:
        """Return the space of many environments' observations, in the dtypes that they have."""
        import jax

        batch = jax.tree.map(lambda leaf: shape_of((count, *leaf.shape), leaf.dtype), self._shapes[1])
        return space_of(batch, batch_space(self.observation_space, count))

    # ---- one environment ------------------------------------------------------------------------------

    def _trace_start(self, key: Any) -> tuple[Carry, Any, Any]:
        import jax
        import jax.numpy as jnp

        with self._tracing("reset"):
            key, reset_key = jax.random.split(key)
            state, obs, info = self.interface.reset(reset_key)
        carry = Carry(self._arrays("state", state), key, jnp.int32(0), jnp.bool_(False))
        return carry, self._arrays("obs", obs), self._info(info)

    def _trace_step(self, carry: Carry, action: Any) -> tuple[Carry, Outcome]:
        import jax

        time = carry.time + 1
        with self._tracing("step"):
            state, obs, reward, terminated, truncated, info = self.interface.step(
                jax.random.fold_in(carry.key, time + 1), carry.state, action
            )
        # Some packages use floats for flags.
        terminated = self._each("terminated", terminated).astype(bool)
        truncated = self._each("truncated", truncated).astype(bool)
        if self.limit is not None:
            truncated = truncated | (time >= self.limit)
        done = (terminated | truncated).all()
        reward = self._each("reward", reward) if self.interface.agents else self._arrays("reward", reward)
        obs, info = self._arrays("obs", obs), self._info(info)
        outcome = Outcome(obs, _as(reward, reward), terminated, truncated, info, None, None, None)
        return Carry(self._arrays("state", state), carry.key, time, done), outcome

    @contextmanager
    def _tracing(self, method: str) -> Iterator[None]:
        """Let keys be what is documented, and add a note to what an environment raises."""
        many = "" if self.num_envs is None else f" for {self.num_envs} environments"
        note = f"raised while JAX traced {method} of {self.interface.name}{many}: it must be pure JAX"
        try:
            with _threefry():
                yield
        except Exception as error:
            note_on(error, note)
            raise

    def _arrays(self, what: str, tree: Any) -> Any:
        """Return a tree whose leaves are JAX arrays, strongly typed but for small ints of Python's."""
        import jax
        import jax.numpy as jnp

        def strong(path: Any, leaf: Any) -> Any:
            try:
                array = leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)
            except (TypeError, ValueError, OverflowError) as error:
                where, instead = f"{what}{jax.tree_util.keystr(path)}", "arrays and numbers of JAX's dtypes"
                raise self._refused(where, leaf, instead) from error
            is_small = type(leaf) is int and 0 <= leaf < 128  # see `_joint_dtype`
            return array if is_small else _cast(array, array.dtype)

        # Parts of a state or an info may be None; an observation or a reward may not.
        is_none = None if what in ("state", "info") else lambda leaf: leaf is None
        return jax.tree_util.tree_map_with_path(strong, tree, is_leaf=is_none)

    def _refused(self, where: str, value: Any, instead: str) -> UnsupportedError:
        kind = repr(value) if isinstance(value, int) else describe(value)
        return UnsupportedError(f"{self.interface.name} returns {kind}", f"return {instead}", where=where)

    def _info(self, info: Any) -> Any:
        if not isinstance(info, Mapping):
            raise self._refused("info", info, "a dict, which may be empty")
        return self._arrays("info", dict(info))

    def _each(self, what: str, value: Any) -> Any:
        """Return an array with a reward or flag for each agent, or for the only one."""
        import jax.numpy as jnp

        agents = self.interface.agents
        if agents and isinstance(value, Mapping) and set(value) == set(agents):
            value = [value[agent] for agent in agents]
        try:
            return jnp.broadcast_to(jnp.asarray(value).squeeze(), (len(agents),) if agents else ())
        except (TypeError, ValueError) as error:
            instead = f"one for each of {', '.join(agents)}" if agents else "one bool, or name the agents"
            raise self._refused(what, value, instead) from error

    def _begin(self, key: Any) -> tuple[Carry, Any, Any]:
        """Reset one environment, with everything in the dtypes of a step."""
        like, like_obs, like_info, _ = self._shapes
        carry, obs, info = self._start_one(key)
        return _as(like, carry), _as(like_obs, obs), _as(like_info, info)

    def _advance(self, carry: Carry, action: Any) -> tuple[Carry, Outcome]:
        like, like_obs, _, like_info = self._shapes
        carry, out = self._step_one(carry, action)
        out = out._replace(obs=_as(like_obs, out.obs), info=_as(like_info, out.info))
        return _as(like, carry), out

    def _kept(self, carry: Carry) -> Carry:
        return carry if self._keeps_done else carry._replace(done=None)

    def _flat(self, carry: Carry) -> tuple[Any, ...]:
        import jax

        return tuple(jax.tree.leaves(self._kept(carry)))

    def _whole(self, leaves: tuple[Any, ...]) -> Carry:
        import jax

        whole: Carry = jax.tree.unflatten(self._structure, leaves)
        return whole if self._keeps_done else whole._replace(done=np.zeros(whole.time.shape, bool))

    def checked_state(self, state: Any) -> Any:
        """Return a copy of a carry and an observation; refuse what is not of this environment's form."""
        import jax

        keys = keys_of([0] * (self.num_envs or 1))
        leaves, obs, _ = jax.eval_shape(self._start, keys[0] if self.num_envs is None else keys)
        expected = leaves, () if self.num_envs is None else obs

        def form(tree: Any) -> Any:
            return jax.tree.map(
                lambda leaf: (getattr(leaf, "shape", None), getattr(leaf, "dtype", None)), tree
            )

        if form(state) != form(expected):
            what = f"this is not a state of {self.interface.name}, or not of {self.num_envs or 1} of them"
            raise OptionError(what, "pass what get_state() of such environments has returned")
        return copied(state)

    def keys_in(self, leaves: tuple[Any, ...]) -> Any:
        """Return the key of each environment, from which its next reset derives."""
        return self._whole(leaves).key

    def state_of(self, leaves: tuple[Any, ...]) -> Any:
        """Return a copy of the package's state, which later steps leave alone."""
        return copied(self._whole(leaves).state)

    def world_state(self, leaves: tuple[Any, ...]) -> Any:
        """Return the package's state for all agents; it may be a part of the state, so that is copied."""
        if self.interface.world_state is None:
            raise NotImplementedError(f"{self.interface.name} has no state for all agents")
        return self._world_state(self.state_of(leaves))

    # ---- what is compiled, for one and for many -------------------------------------------------------

    def _start(self, keys: Any) -> tuple[Any, Any, Any]:
        carry, obs, info = self._begin_all(keys)
        return self._flat(carry), obs, info

    def _step_single(self, leaves: tuple[Any, ...], action: Any) -> tuple[Any, Outcome]:
        import jax
        import jax.numpy as jnp

        before = self._whole(leaves)
        carry, out = self._advance(before, action)
        outside = is_outside(self.interface.action_space, action)
        carry = select(outside, before, carry)
        plain = [out.reward, out.terminated, out.truncated]
        if all(isinstance(one, jax.Array) and not one.shape for one in plain):
            # One array to read instead of four; any dtype can hold a flag.
            status = jnp.stack([jnp.asarray(one, _wide(out.reward.dtype)) for one in [outside, *plain]])
            return self._flat(carry), out._replace(
                reward=None, terminated=None, truncated=None, status=status
            )
        return self._flat(carry), out._replace(status=outside[None])

    def _restart(self, leaves: tuple[Any, ...], obs: Any, keys: Any, mask: Any) -> tuple[Any, Any, Any]:
        """Reset some environments; the others go on."""
        carry, (fresh, first, info) = self._whole(leaves), self._begin_all(keys)
        return self._flat(select(mask, fresh, carry)), select(mask, first, obs), info

    def _step_all(self, leaves: tuple[Any, ...], actions: Any) -> tuple[Any, Outcome]:
        import jax
        import jax.numpy as jnp

        before, mode = self._whole(leaves), self.autoreset_mode
        carry, out = jax.vmap(self._advance)(before, actions)
        outside = jax.vmap(partial(is_outside, self.interface.action_space))(actions)
        if mode is AutoresetMode.NEXT_STEP:
            outside &= ~before.done  # the actions of environments that are now reset count for nothing
        is_refused = outside.any()
        first = jnp.where(is_refused, outside.argmax().astype(jnp.int32), -1)
        if mode is AutoresetMode.DISABLED:
            any_done = before.done.any()
            status = jnp.stack([jnp.int32(0), first, any_done.astype(jnp.int32)])
            return self._flat(select(is_refused | any_done, before, carry)), out._replace(status=status)

        is_same = mode is AutoresetMode.SAME_STEP
        over = carry.done if is_same else before.done
        reset_info, step_info = self.info_shapes
        old_info = _filled(reset_info, out.info, self.num_envs)
        status = jnp.stack([over.any().astype(jnp.int32), first, jnp.int32(0)])

        def begin() -> tuple[Any, Any, Any, Any]:
            # All are reset, which takes as long as resetting some; only those whose episodes are over change.
            fresh, obs, info = self._begin_all(carry.key)
            fresh_info = _filled(step_info, info, self.num_envs)
            begun = select(over, (fresh, obs, fresh_info), (carry, out.obs, old_info))
            return *begun, select(over, final, _zeros_like(final))

        if not is_same:
            ended = out.reward, out.terminated, out.truncated
            reward, terminated, truncated = select(over, _zeros_like(ended), ended)
            out = out._replace(reward=reward, terminated=terminated, truncated=truncated)
        final = (out.obs, out.info) if is_same else None
        carry, obs, info, final = jax.lax.cond(over.any(), begin, lambda: (carry, out.obs, old_info, final))
        out = out._replace(obs=obs, info=info, over=over, final=final, status=status)
        return self._flat(select(is_refused, before, carry)), out

    def _step_all_and_keep(self, leaves: tuple[Any, ...], actions: Any) -> tuple[Any, Outcome, Any]:
        """Take a step, and return the observation twice: the caller may delete the one that it gets."""
        leaves, out = self._step_all(leaves, actions)
        return leaves, out, out.obs

    def _step_all_for_host(self, leaves: tuple[Any, ...], actions: Any) -> tuple[Any, PackedArrays]:
        """Take a step whose outcome the host reads; what only ended episodes need is a tree of its own."""
        leaves, out = self._step_all(leaves, actions)
        return leaves, PackedArrays.of(out._replace(over=None, final=None), (out.over, out.final))


@contextmanager
def _threefry() -> Iterator[None]:
    """Let keys be raw ones of threefry2x32, whatever the user's configuration says."""
    import jax

    with jax.default_prng_impl("threefry2x32"), jax.enable_custom_prng(False):
        yield


def keys_of(seeds: Any) -> Any:
    """Return `jax.random.PRNGKey(seed)` for each seed, as a NumPy array; only the lowest bits count."""
    import jax

    refuse_if_forked()
    if wrong := [seed for seed in seeds if not isinstance(seed, (int, np.integer)) or seed < 0]:
        raise OptionError(f"seed={wrong[0]!r} is not valid", "pass a whole number, at least 0")
    dtype = np.dtype(jax.dtypes.canonicalize_dtype(np.uint64))
    lowest = np.asarray([int(seed) & np.iinfo(dtype).max for seed in seeds], dtype)
    with _threefry():
        return np.asarray(untraced(jax.jit(jax.vmap(jax.random.PRNGKey))(lowest)))


def copied(tree: Any) -> Any:
    """Return a copy of a tree of arrays."""
    import jax
    import jax.numpy as jnp

    return jax.tree.map(partial(jnp.array, copy=True), tree)


def _strong(shapes: Any) -> Any:
    """Return shapes and dtypes without the mark of weak types."""
    import jax

    return jax.tree.map(lambda leaf: shape_of(leaf.shape, leaf.dtype), shapes)


def _joint_dtype(reset: Any, step: Any) -> Any:
    """Return the dtype of two arrays that holds the values of both; None if there is none."""
    # Only a small int of Python's is still weakly typed: the dtypes of all numbers hold it.
    held = [np.uint8 if leaf.weak_type else leaf.dtype for leaf in (reset, step)]
    joint = step.dtype if can_hold(step.dtype, held[0]) else reset.dtype
    return joint if reset.shape == step.shape and all(can_hold(joint, dtype) for dtype in held) else None


def _cast(leaf: Any, dtype: Any) -> Any:
    """Return an array in a dtype, no longer weakly typed; typed keys stay as they are."""
    import jax
    import jax.numpy as jnp

    return leaf if jnp.issubdtype(dtype, jax.dtypes.extended) else jax.lax.convert_element_type(leaf, dtype)


def _as(like: Any, tree: Any) -> Any:
    """Return a tree in the dtypes of another."""
    import jax

    return jax.tree.map(lambda to, leaf: _cast(leaf, to.dtype), like, tree)


def _wide(dtype: Any) -> Any:
    """Return a dtype that holds a reward exactly, and that NumPy has."""
    import jax.numpy as jnp

    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.promote_types(dtype, jnp.float32)
    return jnp.int32 if jnp.issubdtype(dtype, jnp.bool_) else dtype


def select(mask: Any, chosen: Any, other: Any) -> Any:
    """Return, for each environment or for all together, the leaves of one tree or of the other."""
    import jax
    import jax.numpy as jnp

    def select(one: Any, two: Any) -> Any:
        if (
            two.shape[: mask.ndim] != mask.shape
        ):  # MuJoCo Warp leaves some arrays without an axis for environments
            return two
        return jnp.where(mask.reshape(mask.shape + (1,) * (two.ndim - mask.ndim)), one, two)

    return jax.tree.map(select, chosen, other)


def _zeros_like(tree: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.tree.map(jnp.zeros_like, tree)


def _filled(shapes: dict[str, Any], info: dict[str, Any], count: int | None) -> dict[str, Any]:
    """Return infos of many environments with zeros for what they lack, given the shapes for one."""
    import jax
    import jax.numpy as jnp

    filled = dict(info)
    for key, shape in shapes.items():
        if key not in info:
            filled[key] = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), shape)
        elif isinstance(shape, dict):
            filled[key] = _filled(shape, info[key], count)
    return filled
