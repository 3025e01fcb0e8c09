"""The functions of one environment, as JAX traces them: their results are checked, and have one form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from arrayferry._core.dtypes import can_hold
from arrayferry._core.messages import note_on
from arrayferry._core.registry import describe
from arrayferry._frameworks.jax import jax, jnp
from arrayferry.envs._interface import Interface
from arrayferry.envs._keys import keys_of, threefry
from arrayferry.envs._spaces import members_of
from arrayferry.envs._trees import in_dtypes_of, shape_of, strong
from arrayferry.errors import UnsupportedError

__all__ = ["Traced"]

Info = dict[str, Any]


class Traced:
    """The functions of an `Interface`, whose results have the same dtypes after a reset and after a step.

    Args:
        interface: describes the environment.
        num_envs: how many are stepped together, for messages.

    Attributes:
        members: what its action space takes.
        state: the shapes and dtypes of the state.
        obs: those of the observation.
        infos: those of the info of a reset, and of a step.
    """

    def __init__(self, interface: Interface, num_envs: int | None) -> None:
        self._interface = interface
        self._name, self._agents = interface.name, interface.agents
        self._whose = self._name if num_envs is None else f"{self._name} for {num_envs} environments"
        self.members = members_of(interface.action_space)
        # Compiled on their own as well, so that `_measure` and the functions that run share one trace.
        self._reset, self._step = jax.jit(self._trace_reset), jax.jit(self._trace_step)
        self.state, self.obs, self.infos = self._measure()

    def reset(self, key: Any) -> tuple[Any, Any, Info]:
        """Return the state, the observation and the info."""
        result: tuple[Any, Any, Info] = in_dtypes_of((self.state, self.obs, self.infos[0]), self._reset(key))
        return result

    def step(self, key: Any, state: Any, action: Any) -> tuple[Any, Any, Any, Any, Any, Info]:
        """Return the state, and the five values of a step; rewards and flags of agents are arrays."""
        state, obs, *values, info = self._step(key, state, action)
        state, obs, info = in_dtypes_of((self.state, self.obs, self.infos[1]), (state, obs, info))
        return state, obs, *values, info

    # ---- tracing ------------------------------------------------------------------------------------------

    def _trace_reset(self, key: Any) -> tuple[Any, Any, Info]:
        with self._tracing("reset"):
            state, obs, info = self._interface.reset(key)
        return self._arrays("state", state), self._arrays("obs", obs), self._info(info)

    def _trace_step(self, key: Any, state: Any, action: Any) -> tuple[Any, ...]:
        with self._tracing("step"):
            state, obs, reward, terminated, truncated, info = self._interface.step(key, state, action)
        # Some packages use floats for flags.
        terminated = self._each("terminated", terminated).astype(bool)
        truncated = self._each("truncated", truncated).astype(bool)
        reward = self._each("reward", reward) if self._agents else self._arrays("reward", reward)
        state, obs = self._arrays("state", state), self._arrays("obs", obs)
        return state, obs, in_dtypes_of(reward, reward), terminated, truncated, self._info(info)

    @contextmanager
    def _tracing(self, method: str) -> Iterator[None]:
        """Let keys be what is documented, and add a note to what an environment raises."""
        try:
            with threefry():
                yield
        except Exception as error:
            note_on(error, f"raised while JAX traced {method} of {self._whose}: it must be pure JAX")
            raise

    def _arrays(self, what: str, tree: Any) -> Any:
        """Return a tree whose leaves are JAX arrays, strongly typed but for small ints of Python's."""

        def strongly_typed(path: Any, leaf: Any) -> Any:
            try:
                array = leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)
            except (TypeError, ValueError, OverflowError) as error:
                where, instead = f"{what}{jax.tree_util.keystr(path)}", "arrays and numbers of JAX's dtypes"
                raise self._refused(where, leaf, instead) from error
            is_small = type(leaf) is int and 0 <= leaf < 128  # see `_joint_dtype`
            return array if is_small else in_dtypes_of(array, array)

        # Parts of a state or an info may be None; an observation or a reward may not.
        is_none = None if what in ("state", "info") else lambda leaf: leaf is None
        return jax.tree_util.tree_map_with_path(strongly_typed, tree, is_leaf=is_none)

    def _info(self, info: Any) -> Any:
        if not isinstance(info, Mapping):
            raise self._refused("info", info, "a dict, which may be empty")
        return self._arrays("info", dict(info))

    def _each(self, what: str, value: Any) -> Any:
        """Return an array with a reward or flag for each agent, or for the only one."""
        agents = self._agents
        if agents and isinstance(value, Mapping) and set(value) == set(agents):
            value = [value[agent] for agent in agents]
        try:
            return jnp.broadcast_to(jnp.asarray(value).squeeze(), (len(agents),) if agents else ())
        except (TypeError, ValueError) as error:
            instead = f"one for each of {', '.join(agents)}" if agents else "one bool, or name the agents"
            raise self._refused(what, value, instead) from error

    def _refused(self, where: str, value: Any, instead: str) -> UnsupportedError:
        kind = repr(value) if isinstance(value, int) else describe(value)
        return UnsupportedError(f"{self._name} returns {kind}", f"return {instead}", where=where)

    # ---- one form for resets and steps --------------------------------------------------------------------

    def _measure(self) -> tuple[Any, Any, tuple[Info, Info]]:
        """Return the shapes of the state, the observation, and the infos, before anything runs."""
        key = keys_of([0])[0]
        before, obs, reset_info = jax.eval_shape(self._reset, key)
        state = strong(before)
        while True:  # what is wider now may widen something else
            after, step_obs, *_, step_info = jax.eval_shape(self._step, key, state, strong(self.members))
            before = self._joined("state", before, after)
            if jax.tree.leaves(before) == jax.tree.leaves(state):
                return state, self._joined("obs", obs, step_obs), self._joined_infos(reset_info, step_info)
            state = before

    def _joined(self, where: str, reset: Any, step: Any) -> Any:
        """Return the shapes of both, with the dtype that holds the other's values; refuse what has none."""

        def joined(path: Any, old: Any, new: Any) -> Any:
            if (dtype := _joint_dtype(old, new)) is not None:
                return shape_of(old.shape, dtype)
            kinds = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in (old, new)]
            what = f"{self._name} returns {kinds[0]} from a reset, and {kinds[1]} after a step"
            hint = "return one shape and one dtype from both, with astype() where they differ"
            raise UnsupportedError(what, hint, where=f"{where}{jax.tree_util.keystr(path)}")

        structures: list[Any] = [jax.tree.structure(tree) for tree in (reset, step)]
        if structures[0] != structures[1]:
            what = f"{self._name} returns another structure after a step than from a reset"
            raise UnsupportedError(what, "return the same from both, as JAX needs it", where=where)
        return jax.tree_util.tree_map_with_path(joined, reset, step)

    def _joined_infos(self, reset: Info, step: Info, path: str = "info") -> tuple[Info, Info]:
        """Return the shapes of both; a part that is in both has a joint dtype, others may be in one alone."""
        reset, step = dict(reset), dict(step)
        for key in reset.keys() & step.keys():
            parts, where = (reset[key], step[key]), f"{path}[{key!r}]"
            if all(isinstance(part, dict) for part in parts):
                reset[key], step[key] = self._joined_infos(*parts, where)
            else:
                reset[key] = step[key] = self._joined(where, *parts)
        return strong(reset), strong(step)


def _joint_dtype(reset: Any, step: Any) -> Any:
    """Return the dtype of two arrays that holds the values of both; None if there is none."""
    # Only a small int of Python's is still weakly typed: the dtypes of all numbers hold it.
    held = [np.uint8 if leaf.weak_type else leaf.dtype for leaf in (reset, step)]
    joint = step.dtype if can_hold(step.dtype, held[0]) else reset.dtype
    return joint if reset.shape == step.shape and all(can_hold(joint, dtype) for dtype in held) else None
