"""Actions, and the action space that an environment currently has."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorWrapper

from arrayferry._core.convert import Converter, is_registered
from arrayferry._core.interruptions import ignore_errors
from arrayferry._core.messages import note_on
from arrayferry._core.registry import decide_framework, describe
from arrayferry._core.speedups import speedups
from arrayferry._core.type_cache import TypeCache
from arrayferry.errors import FerryError
from arrayferry.spaces.members import Caster, to_numpy
from arrayferry.spaces.structure import ARRAY_SPACES, step_space

__all__ = ["CachedActionSpace", "live_member_caster", "note_mismatch", "owner_of_action_space"]


def owner_of_action_space(env: Any, space: spaces.Space[Any]) -> Any:
    """Return the environment or wrapper that owns this `action_space`: asking it directly is fastest."""
    owner, inherited = env, (gym.Wrapper.action_space, VectorWrapper.action_space)
    while isinstance(owner, (gym.Wrapper, VectorWrapper)) and owner._action_space is None:
        if type(owner).action_space not in inherited:
            break
        owner = owner.env
    return owner if owner.action_space is space else CachedActionSpace(env, space)


class CachedActionSpace:
    """Stands in for an environment whose action space is made on request: an equal one counts as the same.

    Some environments make a new one every time; for others, we batch the one that they have.
    """

    def __init__(self, env: Any, space: spaces.Space[Any]) -> None:
        self._env, self._original, self._space = env, env.action_space, space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The known space, unless the environment's has changed."""
        current = self._env.action_space
        is_same = current is self._original or current == self._original
        return self._space if is_same else step_space(self._env, "action_space")


# The members of a Discrete space of up to this size are made in advance.
_FEW = 10_000


def live_member_caster(
    owner: Any,
    to_env: Converter,
    cast: Caster,
    fallback: Caster,
    refresh: Caster,
    reads_at_once: bool = False,
) -> Caster:
    """Return a function that turns actions into members of the owner's current action space.

    Args:
        owner: the environment or wrapper that owns the action space.
        to_env: the converter to the environment's framework.
        cast: the space's caster, for values already in that framework.
        fallback: turns any action into a member; where possible, C does this for the most common ones.
        refresh: called with the action when the owner's action space has changed.
        reads_at_once: whether the environment is done with an action when its step returns, so that it may
            be given the agent's own memory.
    """
    space = owner.action_space
    if to_env.framework.name == "numpy" and to_env.copy is not False:
        current = owner, "action_space", space, refresh
        if isinstance(space, spaces.Discrete) and space.n <= _FEW and space.start == 0:
            members = [*map(np.dtype(space.dtype).type, range(int(space.n)))]
            if speedups is None:
                return partial(_cast_integer, members, fallback, owner, space, refresh)
            return speedups.member_caster(_items, fallback, members, None, None, *current)  # type: ignore[no-any-return]
        if speedups is not None and isinstance(space, ARRAY_SPACES):
            dtype = np.dtype(space.dtype)
            probes = _viewers if reads_at_once and to_env.copy is None else _copiers
            return speedups.member_caster(probes, fallback, None, cast, dtype, *current)  # type: ignore[no-any-return]
    return lambda action: fallback(action) if owner.action_space is space else refresh(action)


def _cast_integer(
    members: list[Any], fallback: Caster, owner: Any, space: Any, refresh: Caster, action: Any
) -> Any:
    """Make a member of a Discrete space, as `member_caster` does in C."""
    if owner.action_space is not space:
        return refresh(action)
    number, probe = None, _items[type(action)]
    if probe is not None:
        with ignore_errors():  # of an action that the probe cannot read
            number = probe(action)
    return members[number] if type(number) is int and 0 <= number < len(members) else fallback(action)


def _item_of(cls: type) -> Any:
    """Return a function that reads the Python int in a scalar or 0-d array of this type; None if unknown."""
    if is_registered(cls):
        return None
    if cls is int:
        return int
    if cls is np.ndarray:
        return lambda array: array.tolist() if array.dtype.kind in "biu" else None
    if issubclass(cls, np.generic):
        return cls.item if np.dtype(cls).kind in "biu" else None
    framework = decide_framework(cls)
    return framework and framework.source(cls).item


def _reader_of(hook: str, cls: type) -> Any:
    """Return a framework's fast path from its arrays to NumPy (`fast_copy` or `fast_view`), or None."""
    framework = None if is_registered(cls) else decide_framework(cls)
    return framework and getattr(framework.source(cls), hook)


# Shared by all spaces, so that a wrapper's first step takes no longer than its second.
_items = TypeCache(_item_of)
_copiers = TypeCache(partial(_reader_of, "fast_copy"))
_viewers = TypeCache(partial(_reader_of, "fast_view"))


# The most numbers that a message lists one by one.
_SHOWN = 8


def note_mismatch(
    error: Exception, env: Any, space: spaces.Space[Any], action: Any, convert: Caster, name: str
) -> None:
    """Add to an environment's error what arrived and what its action space takes, if they disagree."""
    is_ours = isinstance(error, FerryError) and error.where.startswith("action")
    if is_ours or is_registered(type(action)):  # a user's function never gets a value twice
        return
    # A note must not replace the error, nor fill the screen.
    with ignore_errors(), np.printoptions(threshold=_SHOWN, edgeitems=2, linewidth=200):
        member = to_numpy(convert(action))
        if space.contains(member):
            return
        is_array = isinstance(member, (np.ndarray, np.generic))
        if is_array and (member.shape, member.dtype) == (space.shape, space.dtype):
            few = member.size <= _SHOWN
            value = member if few else f"{describe(action)} from {member.min()} to {member.max()}"
            note_on(error, f"{name}: {value} arrived, which is not in {space}")
            return
        shape = None if space.shape is None else f"{space.dtype}[{','.join(map(str, space.shape))}]"
        count = getattr(env, "num_envs", None)
        many = "" if count is None else f", one for each of {count} environments"
        takes = f"{space} takes {shape or 'what its sample() returns'}{many}"
        note_on(error, f"{name}: {describe(action)} arrived; {takes}")
