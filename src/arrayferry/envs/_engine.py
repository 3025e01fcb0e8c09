"""One environment or many, in one compiled call for a reset and one for a step.

The *carry* is everything that passes from one step to the next: the package's state, and for each environment
a key, the number of steps since its reset, and whether its episode is over. It is kept as a flat tuple of
arrays, because every container at the boundary of a compiled function costs JAX time, and it is donated: a
step reuses its memory. Nothing else that is returned shares that memory.

Keys derive from the seed. An environment begins with `jax.random.PRNGKey(seed)`. Each reset does
`key, reset_key = jax.random.split(key)`, and step `t` of the episode, counted from 1, gets
`jax.random.fold_in(key, t)`. So nothing that happens in an episode changes how the next one begins, and
packages that draw no random numbers in a step do not pay for keys.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from arrayferry._core.messages import note_on
from arrayferry._frameworks.jax import refuse_if_forked
from arrayferry.envs._interface import Interface, interface_of
from arrayferry.envs._packing import PackedArrays
from arrayferry.envs._spaces import is_outside, members_of, shape_of, space_of
from arrayferry.errors import UnsupportedError

__all__ = ["Engine", "Outcome", "keys_of"]


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
        status: for many, whether any environment was reset, any action was outside its space, and any episode
            was over before the step. For one, whether the action was outside its space, followed by reward,
            terminated and truncated, which are None above, if these are scalars.
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
    """

    def __init__(
        self,
        env: Any,
        num_envs: int | None,
        autoreset_mode: AutoresetMode,
        max_episode_steps: int | None,
        interface: Interface | None = None,
    ) -> None:
        import jax

        self.env, self.num_envs = env, num_envs
        self.autoreset_mode = autoreset_mode
        self.interface = interface_of(env) if interface is None else interface
        self.max_episode_steps = max_episode_steps
        self.limit = self.interface.max_episode_steps if max_episode_steps is None else max_episode_steps
        # Compiled on their own as well, so that `_measure` and the functions that run share one trace.
        self._start_one, self._step_one = jax.jit(self._trace_start), jax.jit(self._trace_step)
        self._shapes = self._measure()
        is_single = num_envs is None
        # No step reads `done` of a single environment, nor of those reset in the step that ends the episode.
        self._keeps_done = not is_single and autoreset_mode is not AutoresetMode.SAME_STEP
        self._structure = jax.tree.structure(self._kept(self._shapes[0]))
        self.start = jax.jit(self._start_single if is_single else self._start_all)
        self.world_state = jax.jit(self._world_state)
        self.restart = jax.jit(self._restart, donate_argnums=0)
        self.step = jax.jit(self._step_single if is_single else self._step_all_and_keep, donate_argnums=0)
        self.step_for_host = jax.jit(self._step_all_for_host, donate_argnums=0)
        # Until something large has been freed once, glibc may return a step's memory to the system after each
        # step, which then takes three times as long. Nothing writes to this array, so it occupies no memory.
        np.empty(8 << 20, np.uint8)

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Engine, (self.env, self.num_envs, self.autoreset_mode, self.max_episode_steps)

    # ---- what is known before anything runs -----------------------------------------------------------

    def _measure(self) -> tuple[Carry, Any, Any, Any]:
        """Return the shapes of one environment's carry and observation, and infos of a reset and a step."""
        import jax

        carry, obs, reset_info = jax.eval_shape(self._start_one, keys_of([0])[0])
        action = members_of(self.interface.action_space)
        after, _ = jax.eval_shape(self._step_one, carry, action)
        self._refuse_another("the state", carry, after)
        carry = jax.tree.map(lambda leaf: shape_of(leaf.shape, leaf.dtype), after)
        # Once more: an int from the reset may now be a float.
        after, outcome = jax.eval_shape(self._step_one, carry, action)
        self._refuse_another("the state", carry, after)
        self._refuse_another("the state", after, carry)
        self._refuse_another("the observation", obs, outcome.obs)
        self._refuse_other_infos(reset_info, outcome.info)
        return carry, outcome.obs, reset_info, outcome.info

    def _refuse_another(self, what: str, reset: Any, step: Any) -> None:
        """Refuse a reset's value whose form is not a step's, unless the step's dtype can hold it."""
        import jax
        import jax.numpy as jnp

        structures: list[Any] = [jax.tree.structure(one) for one in (reset, step)]
        leaves, others = jax.tree.leaves(reset), jax.tree.leaves(step)
        fits = structures[0] == structures[1] and all(
            one.shape == other.shape
            and (one.dtype == other.dtype or jnp.promote_types(one.dtype, other.dtype) == other.dtype)
            for one, other in zip(leaves, others)
        )
        if not fits:
            what = f"{what} of {self.interface.name} has a different structure, shape or dtype after a step"
            raise UnsupportedError(what, "JAX needs the same after a reset and after each step")

    def _refuse_other_infos(self, reset: dict[str, Any], step: dict[str, Any], path: str = "info") -> None:
        """Refuse infos that have a common part in different forms; a part may be missing in one of them."""
        for key in reset.keys() & step.keys():
            parts, where = (reset[key], step[key]), f"{path}[{key!r}]"
            if all(isinstance(part, dict) for part in parts):
                self._refuse_other_infos(*parts, where)
            else:
                self._refuse_another(where, *parts)

    @property
    def observation_space(self) -> Any:
        """The space of one environment's observations."""
        return space_of(self._shapes[1], self.interface.observation_space)

    @property
    def info_shapes(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The shapes and dtypes of the infos of a reset, and of those of a step."""
        return self._shapes[2], self._shapes[3]

    # ---- one environment ------------------------------------------------------------------------------

    def _trace_start(self, key: Any) -> tuple[Carry, Any, Any]:
        import jax
        import jax.numpy as jnp

        key, reset_key = jax.random.split(key)
        with self._noting("reset"):
            state, obs, info = self.interface.reset(reset_key)
        return Carry(_arrays(state), key, jnp.int32(0), jnp.bool_(False)), _arrays(obs), _arrays(info)

    def _trace_step(self, carry: Carry, action: Any) -> tuple[Carry, Outcome]:
        import jax
        import jax.numpy as jnp

        time = carry.time + 1
        with self._noting("step"):
            state, obs, reward, terminated, truncated, info = self.interface.step(
                jax.random.fold_in(carry.key, time), carry.state, action
            )
        terminated, truncated = jax.tree.map(_flag, (terminated, truncated))
        if self.limit is not None:
            truncated = jax.tree.map(lambda flag: flag | (time >= self.limit), truncated)
        flags = jax.tree.map(lambda *both: both[0] | both[1], terminated, truncated)
        done = jnp.stack(jax.tree.leaves(flags)).all()
        outcome = Outcome(
            _arrays(obs), _arrays(reward), terminated, truncated, _arrays(info), None, None, None
        )
        return Carry(_arrays(state), carry.key, time, done), outcome

    def _noting(self, method: str) -> _Noting:
        many = "" if self.num_envs is None else f" for {self.num_envs} environments"
        return _Noting(
            f"raised while JAX traced {method} of {self.interface.name}{many}: it must be pure JAX"
        )

    def _begin(self, key: Any) -> tuple[Carry, Any, Any]:
        """Reset one environment, with everything in the dtypes of a step."""
        carry, obs, info = self._start_one(key)
        like, like_obs, _, like_info = self._shapes
        return _as(like, carry), _as(like_obs, obs), _infos_as(like_info, info)

    def _advance(self, carry: Carry, action: Any) -> tuple[Carry, Outcome]:
        carry, outcome = self._step_one(carry, action)
        return _as(self._shapes[0], carry), outcome

    def _kept(self, carry: Carry) -> Carry:
        return carry if self._keeps_done else carry._replace(done=None)

    def _flat(self, carry: Carry) -> tuple[Any, ...]:
        import jax

        return tuple(jax.tree.leaves(self._kept(carry)))

    def _whole(self, leaves: tuple[Any, ...]) -> Carry:
        import jax

        whole: Carry = jax.tree.unflatten(self._structure, leaves)
        return whole if self._keeps_done else whole._replace(done=np.zeros(whole.time.shape, bool))

    def keys_in(self, leaves: tuple[Any, ...]) -> Any:
        """Return the key of each environment, from which its next reset derives."""
        refuse_if_forked()
        return self._whole(leaves).key

    def state_of(self, leaves: tuple[Any, ...]) -> Any:
        """Return a copy of the package's state, which later steps leave alone."""
        import jax
        import jax.numpy as jnp

        return jax.tree.map(partial(jnp.array, copy=True), self._whole(leaves).state)

    def _world_state(self, leaves: tuple[Any, ...]) -> Any:
        if self.interface.world_state is None:
            raise NotImplementedError(f"{self.interface.name} has no state for all agents")
        return self.interface.world_state(self._whole(leaves).state)

    # ---- a single environment -------------------------------------------------------------------------

    def _start_single(self, key: Any) -> tuple[Any, Any, Any]:
        carry, obs, info = self._begin(key)
        return self._flat(carry), obs, info

    def _step_single(self, leaves: tuple[Any, ...], action: Any) -> tuple[Any, Outcome]:
        import jax
        import jax.numpy as jnp

        before = self._whole(leaves)
        carry, out = self._advance(before, action)
        outside = is_outside(self.interface.action_space, action)
        carry = _unless(outside, carry, before)
        plain = [out.reward, out.terminated, out.truncated]
        if all(isinstance(one, jax.Array) and not one.shape for one in plain):
            # One array to read instead of four; any dtype can hold a flag.
            status = jnp.stack([jnp.asarray(one, _wide(out.reward.dtype)) for one in [outside, *plain]])
            return self._flat(carry), out._replace(
                reward=None, terminated=None, truncated=None, status=status
            )
        return self._flat(carry), out._replace(status=outside[None])

    # ---- many environments ----------------------------------------------------------------------------

    def _start_all(self, keys: Any) -> tuple[Any, Any, Any]:
        import jax

        carry, obs, info = jax.vmap(self._begin)(keys)
        return self._flat(carry), obs, info

    def _restart(self, leaves: tuple[Any, ...], obs: Any, keys: Any, mask: Any) -> tuple[Any, Any, Any]:
        """Reset some environments; the others go on."""
        import jax

        carry, (fresh, first, info) = self._whole(leaves), jax.vmap(self._begin)(keys)
        return self._flat(_select(mask, fresh, carry)), _select(mask, first, obs), info

    def _step_all(self, leaves: tuple[Any, ...], actions: Any) -> tuple[Any, Outcome]:
        import jax
        import jax.numpy as jnp

        before, mode = self._whole(leaves), self.autoreset_mode
        carry, out = jax.vmap(self._advance)(before, actions)
        outside = is_outside(self.interface.action_space, actions)
        if mode is AutoresetMode.DISABLED:
            any_done = before.done.any()
            status = jnp.stack([jnp.bool_(False), outside, any_done])
            return self._flat(_unless(outside | any_done, carry, before)), out._replace(status=status)

        is_same = mode is AutoresetMode.SAME_STEP
        over = carry.done if is_same else before.done
        reset_info, step_info = self.info_shapes
        old_info = _filled(reset_info, out.info, self.num_envs)
        status = jnp.stack([over.any(), outside, jnp.bool_(False)])

        def begin() -> tuple[Any, Any, Any, Any]:
            # All are reset, which takes as long as resetting some; only those whose episodes are over change.
            fresh, obs, info = jax.vmap(self._begin)(carry.key)
            fresh_info = _filled(step_info, info, self.num_envs)
            begun = _select(over, (fresh, obs, fresh_info), (carry, out.obs, old_info))
            return *begun, _select(over, final, _zeros_like(final))

        if not is_same:
            ended = out.reward, out.terminated, out.truncated
            reward, terminated, truncated = _select(over, _zeros_like(ended), ended)
            out = out._replace(reward=reward, terminated=terminated, truncated=truncated)
        final = (out.obs, out.info) if is_same else None
        carry, obs, info, final = jax.lax.cond(over.any(), begin, lambda: (carry, out.obs, old_info, final))
        out = out._replace(obs=obs, info=info, over=over, final=final, status=status)
        return self._flat(_unless(outside, carry, before)), out

    def _step_all_and_keep(self, leaves: tuple[Any, ...], actions: Any) -> tuple[Any, Outcome, Any]:
        """Take a step, and return the observation twice: the caller may delete the one that it gets."""
        leaves, out = self._step_all(leaves, actions)
        return leaves, out, out.obs

    def _step_all_for_host(self, leaves: tuple[Any, ...], actions: Any) -> tuple[Any, PackedArrays]:
        """Take a step whose outcome the host reads; what only ended episodes need is a tree of its own."""
        leaves, out = self._step_all(leaves, actions)
        return leaves, PackedArrays.of(out._replace(over=None, final=None), (out.over, out.final))


class _Noting:
    """Adds a note to what an environment raises while JAX traces it."""

    def __init__(self, note: str) -> None:
        self._note = note

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):
            note_on(error, self._note)


def keys_of(seeds: Any) -> Any:
    """Return `jax.random.PRNGKey(seed)` for each seed, as a NumPy array; only the lowest bits count."""
    import jax

    refuse_if_forked()
    dtype = np.dtype(jax.dtypes.canonicalize_dtype(np.uint64))
    lowest = np.asarray([int(seed) & np.iinfo(dtype).max for seed in seeds], dtype)
    return np.asarray(jax.jit(jax.vmap(jax.random.PRNGKey))(lowest))


def _arrays(tree: Any) -> Any:
    """Return a tree whose leaves are strongly typed JAX arrays."""
    import jax
    import jax.numpy as jnp

    def strong(leaf: Any) -> Any:
        array = leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)
        return _cast(array, array.dtype)

    return jax.tree.map(strong, tree)


def _flag(value: Any) -> Any:
    import jax.numpy as jnp

    return jnp.asarray(value).astype(bool)  # some packages use floats


def _cast(leaf: Any, dtype: Any) -> Any:
    """Return an array in a dtype, no longer weakly typed; typed keys stay as they are."""
    import jax
    import jax.numpy as jnp

    return leaf if jnp.issubdtype(dtype, jax.dtypes.extended) else jax.lax.convert_element_type(leaf, dtype)


def _as(like: Any, tree: Any) -> Any:
    """Return a tree in the dtypes of another."""
    import jax

    return jax.tree.map(lambda to, leaf: _cast(leaf, to.dtype), like, tree)


def _infos_as(like: Any, infos: Any) -> Any:
    """Return infos in the dtypes of others, which need not have the same parts."""
    if not isinstance(infos, dict):
        return _as(like, infos)
    return {key: _infos_as(like[key], one) if key in like else one for key, one in infos.items()}


def _wide(dtype: Any) -> Any:
    """Return a dtype that holds a reward exactly, and that NumPy has."""
    import jax.numpy as jnp

    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.promote_types(dtype, jnp.float32)
    return jnp.int32 if jnp.issubdtype(dtype, jnp.bool_) else dtype


def _select(mask: Any, chosen: Any, other: Any) -> Any:
    """Return, for each environment, the leaves of one tree or of the other."""
    import jax
    import jax.numpy as jnp

    def select(one: Any, two: Any) -> Any:
        if two.shape[:1] != mask.shape:  # MuJoCo Warp leaves some arrays without an axis for environments
            return two
        return jnp.where(mask.reshape(mask.shape + (1,) * (two.ndim - 1)), one, two)

    return jax.tree.map(select, chosen, other)


def _unless(refused: Any, carry: Carry, before: Carry) -> Carry:
    """Return the carry after a step, or the one before it if the step is refused."""
    import jax
    import jax.numpy as jnp

    kept: Carry = jax.tree.map(lambda after, old: jnp.where(refused, old, after), carry, before)
    return kept


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
