"""One environment or many, in one compiled call for a reset and one for a step.

The *carry* is everything that passes from one step to the next. It is kept as a flat tuple of arrays, because
every container at the boundary of a compiled function costs JAX time, and it is donated: a step reuses its
memory. Nothing else that is returned shares that memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from arrayferry._frameworks.jax import jax, jnp, refuse_if_forked
from arrayferry.envs._interface import Interface, interface_of
from arrayferry.envs._keys import keys_of, reset_keys, step_key
from arrayferry.envs._packing import PackedArrays
from arrayferry.envs._spaces import is_outside, space_of
from arrayferry.envs._traced import Traced
from arrayferry.envs._trees import copied, filled, select, shape_of
from arrayferry.errors import OptionError, UnsupportedError

__all__ = ["Engine"]

Leaves = tuple[Any, ...]


class Carry(NamedTuple):
    """Everything that passes from one step to the next.

    Attributes:
        state: the package's own state.
        obs: the last observation, which a reset of other environments returns again; None for a single one.
        key: from which the keys of steps and the next reset derive.
        time: the number of steps since the reset; negative while a finished episode waits for its reset. Its
            array is the last of the flat tuple.
    """

    state: Any
    obs: Any
    key: Any
    time: Any


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
        self._is_wide: bool = jax.config.jax_enable_x64 if is_wide is None else is_wide  # type: ignore[attr-defined]
        self.env, self.num_envs = env, num_envs
        self.autoreset_mode = autoreset_mode
        self.interface = interface_of(env) if interface is None else interface
        self.refuse_changes()
        self.max_episode_steps = max_episode_steps
        self.limit = self.interface.max_episode_steps if max_episode_steps is None else max_episode_steps
        self._one = Traced(self.interface, num_envs)
        self.members, self.info_shapes = self._one.members, self._one.infos
        self.observation_space = space_of(self._one.obs, self.interface.observation_space)
        self._structure = jax.tree.structure(self._carry(self._one.state, self._one.obs, 0, 0))
        self._begin_all = self._begin if num_envs is None else jax.vmap(self._begin)
        self.start, self.restart = jax.jit(self._start), jax.jit(self._restart)
        self.step = jax.jit(partial(self._step, False), donate_argnums=0)
        self.step_for_host = jax.jit(partial(self._step, True), donate_argnums=0)
        self.world_state = self.interface.world_state and jax.jit(self.interface.world_state)
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
        refuse_if_forked()
        if jax.config.jax_enable_x64 != self._is_wide:  # type: ignore[attr-defined]
            what = f"jax_enable_x64 was {self._is_wide} when {self.interface.name} was made, and no longer is"
            raise UnsupportedError(what, "set it before you make the environment, and leave it")

    def batched_observation_space(self, count: int) -> Any:
        """Return the space of many environments' observations, in the dtypes that they have."""
        batch = jax.tree.map(lambda leaf: shape_of((count, *leaf.shape), leaf.dtype), self._one.obs)
        return space_of(batch, batch_space(self.observation_space, count))

    # ---- the carry ----------------------------------------------------------------------------------------

    def whole(self, leaves: Leaves) -> Carry:
        """Return the carry of which these are the arrays."""
        carry: Carry = jax.tree.unflatten(self._structure, leaves)
        return carry

    def _carry(self, state: Any, obs: Any, key: Any, time: Any) -> Carry:
        return Carry(state, None if self.num_envs is None else obs, key, time)

    def checked(self, state: Any) -> Leaves:
        """Return a copy of a carry; refuse what does not have the form of this environment's."""
        keys = keys_of([0] * (self.num_envs or 1))
        expected, *_ = jax.eval_shape(self._start, keys[0] if self.num_envs is None else keys)
        forms = [
            jax.tree.map(lambda leaf: (getattr(leaf, "shape", None), getattr(leaf, "dtype", None)), tree)
            for tree in (state, expected)
        ]
        if forms[0] != forms[1]:
            what = f"this is not a state of {self.interface.name}, or not of {self.num_envs or 1} of them"
            raise OptionError(what, "pass what get_state() of such environments has returned")
        leaves: Leaves = copied(state)
        return leaves

    # ---- one environment ----------------------------------------------------------------------------------

    def _begin(self, key: Any) -> tuple[Carry, Any, Any]:
        key, reset_key = reset_keys(key)
        state, obs, info = self._one.reset(reset_key)
        return self._carry(state, obs, key, jnp.int32(0)), obs, info

    def _advance(self, carry: Carry, action: Any) -> tuple[Carry, tuple[Any, ...], Any]:
        """Take a step; return the carry, the step's five values, and whether the action is out of range."""
        time = carry.time + 1
        key = step_key(carry.key, time)
        state, obs, reward, terminated, truncated, info = self._one.step(key, carry.state, action)
        if self.limit is not None:
            truncated = truncated | (time >= self.limit)
        values = obs, reward, terminated, truncated, info
        return self._carry(state, obs, carry.key, time), values, is_outside(self.members, action)

    # ---- what is compiled ---------------------------------------------------------------------------------

    def _start(self, keys: Any) -> tuple[Leaves, Any, Any]:
        carry, obs, info = self._begin_all(keys)
        return tuple(jax.tree.leaves(carry)), obs, info

    def _restart(self, leaves: Leaves, keys: Any, mask: Any) -> tuple[Leaves, Any, Any]:
        """Reset some environments; the others go on."""
        fresh, _, info = self._begin_all(keys)
        carry = select(mask, fresh, self.whole(leaves))
        return tuple(jax.tree.leaves(carry)), carry.obs, info

    def _step(self, for_host: bool, leaves: Leaves, actions: Any) -> tuple[Leaves, PackedArrays]:
        """Take a step; the first of the trees that it returns is always read by the host, if not all are."""
        advance = self._step_single if self.num_envs is None else self._step_all
        carry, *trees = advance(self.whole(leaves), actions)
        return tuple(jax.tree.leaves(carry)), PackedArrays.of(*trees, packed=len(trees) if for_host else 1)

    def _step_single(self, before: Carry, action: Any) -> tuple[Any, ...]:
        """Return the carry; whether the action is refused, reward and flags; observation and info."""
        carry, (obs, *outcome, info), is_refused = self._advance(before, action)
        return select(is_refused, before, carry), (is_refused, *outcome), (obs, info)

    def _step_all(self, before: Carry, actions: Any) -> tuple[Any, ...]:
        """Return the carry, and three trees.

        They are the number of the first environment whose action is outside its space, or -1, and whether
        any episode is over; what a step returns; and whose episode that is, with the observation and the info
        with which it ended, in `SAME_STEP`.
        """
        mode, (reset_info, step_info) = self.autoreset_mode, self.info_shapes
        carry, values, outside = jax.vmap(self._advance)(before, actions)
        obs, reward, terminated, truncated, info = values
        is_same_step = mode is AutoresetMode.SAME_STEP
        over = terminated | truncated if is_same_step else before.time < 0
        if not is_same_step:
            carry = carry._replace(time=jnp.where(terminated | truncated, -1, carry.time))
        if mode is AutoresetMode.NEXT_STEP:
            outside &= ~over  # the actions of environments that are now reset count for nothing
            ended = reward, terminated, truncated
            reward, terminated, truncated = select(over, jax.tree.map(jnp.zeros_like, ended), ended)
        is_refused = outside.any()
        status = jnp.where(is_refused, outside.argmax().astype(jnp.int32), -1), over.any()
        if mode is AutoresetMode.DISABLED:
            return select(is_refused | over.any(), before, carry), status, values

        old_info = filled(reset_info, info, self.num_envs)
        final = (obs, info) if is_same_step else None

        def begin() -> tuple[Any, Any, Any]:
            # All are reset, which takes as long as resetting some; only those whose episodes are over change.
            fresh, _, new_info = self._begin_all(carry.key)
            new_info = filled(step_info, new_info, self.num_envs)
            begun = select(over, (fresh, new_info), (carry, old_info))
            return *begun, select(over, final, jax.tree.map(jnp.zeros_like, final))

        after, info, final = jax.lax.cond(over.any(), begin, lambda: (carry, old_info, final))
        values = after.obs, reward, terminated, truncated, info
        return select(is_refused, before, after), status, values, (over, final)
