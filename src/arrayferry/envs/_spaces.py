"""Spaces as JAX sees them: the shapes and dtypes of members, and spaces made from those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from arrayferry._core.dtypes import kind_of
from arrayferry._core.messages import with_article
from arrayferry._frameworks.jax import jax, jnp
from arrayferry.envs._trees import untraced
from arrayferry.errors import UnsupportedError
from arrayferry.spaces.structure import subspaces

__all__ = ["as_action", "first_member", "gymnasium_space", "is_outside", "members_of", "space_of"]


@dataclass(frozen=True)
class Member:
    """What a space without parts takes, as JAX has it: arrays of one shape and dtype.

    Attributes:
        shape: of a member.
        dtype: of a member.
        limits: the least and the greatest member, inclusive; None for a Box, whose bounds are left to the
            environment, as in Gymnasium.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    limits: tuple[Any, Any] | None


def members_of(space: spaces.Space[Any]) -> Any:
    """Return what a space takes, in the structure of its members."""
    if isinstance(space, spaces.Dict):
        return {key: members_of(part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map(members_of, space.spaces))
    if kind_of(space.dtype) not in "biufc":
        what = f"members of {space} are not arrays of numbers"
        raise UnsupportedError(what, "JAX takes Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple")
    dtype: Any = jax.dtypes.canonicalize_dtype(space.dtype)
    limits: Any = None
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        first = np.asarray(space.start, np.int64)
        last = first + (space.n if isinstance(space, spaces.Discrete) else space.nvec) - 1
        limits = first.astype(dtype), np.minimum(last, np.iinfo(dtype).max).astype(dtype)
    elif isinstance(space, spaces.MultiBinary):
        limits = 0, 1
    return Member(space.shape or (), dtype, limits)


def first_member(members: Any) -> Any:
    """Return the first member of a discrete space; for a Box, zeros."""
    first: Any = lambda leaf: np.full(leaf.shape, leaf.limits[0] if leaf.limits else 0, leaf.dtype)  # noqa: E731
    return jax.tree.map(first, members)


def is_outside(members: Any, action: Any) -> Any:
    """Return whether any discrete action is out of range. JAX traces this."""
    pairs = zip(jax.tree.leaves(members), jax.tree.leaves(action))
    limited = [(array, *leaf.limits) for leaf, array in pairs if leaf.limits is not None]
    return jnp.asarray([((array < low) | (array > high)).any() for array, low, high in limited], bool).any()


def as_action(members: Any, action: Any, path: str = "action", times: Any = 0) -> Any:
    """Return an action as arrays of its members' shapes and dtypes.

    Rows whose time is negative, which wait for a reset, may have any values. The arrays may be the caller's
    own: a step has read them when it returns, because it waits for its status.

    Raises:
        gymnasium.error.InvalidAction: if it has another structure, shape or kind, or does not fit the dtype.
    """
    if isinstance(members, dict):
        if not hasattr(action, "keys") or set(action) != set(members):
            raise gym.error.InvalidAction(f"{path}: {action!r} is not a dict of {', '.join(members)}")
        return {key: as_action(one, action[key], f"{path}[{key!r}]", times) for key, one in members.items()}
    if isinstance(members, tuple):
        if not hasattr(action, "__len__") or len(action) != len(members):
            raise gym.error.InvalidAction(f"{path}: {action!r} is not a tuple of {len(members)}")
        return tuple(as_action(one, action[i], f"{path}[{i}]", times) for i, one in enumerate(members))
    if isinstance(action, (int, np.integer)) and members.shape == () and members.dtype.kind in "iu":
        limits = np.iinfo(members.dtype)
        if limits.min <= action <= limits.max:
            return np.array(action, members.dtype)  # three times as fast as what follows
        raise gym.error.InvalidAction(f"{path}: {action} does not fit {members.dtype}")
    array = untraced(action) if isinstance(action, jax.Array) else np.asarray(action)
    if array.shape != members.shape:
        raise gym.error.InvalidAction(f"{path}: shape {array.shape} arrived, {members.shape} is expected")
    if array.dtype == members.dtype:
        return array
    if not np.can_cast(array.dtype, members.dtype, "same_kind"):
        raise gym.error.InvalidAction(f"{path}: {array.dtype} arrived, {members.dtype} is expected")
    cast = array.astype(members.dtype)
    if cast.dtype.kind in "iu":
        fits = np.equal(cast, array)
        if not (fits.all() or (fits.T | (np.asarray(times) < 0)).all()):
            raise gym.error.InvalidAction(f"{path}: a value does not fit {members.dtype}")
    return cast


def space_of(array: Any, like: spaces.Space[Any] | None = None, path: str = "obs") -> spaces.Space[Any]:
    """Return the space of observations of these shapes and dtypes.

    Args:
        array: the shapes and dtypes of an observation, in dicts, tuples and the like.
        like: the space that the package declares; it is used where its members match.
        path: what the observation is called in messages.
    """
    if isinstance(array, (dict, tuple, list)):
        items = array.items() if isinstance(array, dict) else enumerate(array)
        parts = subspaces(like)
        made: Any = {key: space_of(part, parts.get(key), f"{path}[{key!r}]") for key, part in items}
        return spaces.Dict(made) if isinstance(array, dict) else spaces.Tuple([*made.values()])
    dtype: Any = getattr(array, "dtype", type(array).__qualname__)
    kind = getattr(dtype, "kind", "")  # a typed key has none
    if kind and like is not None and like.shape == array.shape:
        is_whole = kind in "iu" and isinstance(like, (spaces.Discrete, spaces.MultiDiscrete))
        if is_whole or isinstance(like, spaces.MultiBinary):
            return like
        if isinstance(like, spaces.Box) and like.dtype.kind in ("f" if kind == "f" else "iu"):
            bounds = like.low.astype(dtype), like.high.astype(dtype)
            if kind == "f" or ((bounds[0] == like.low) & (bounds[1] == like.high)).all():
                return spaces.Box(*bounds, dtype=dtype.type)
    if kind == "b":
        return spaces.Box(0, 1, array.shape, dtype.type)
    if kind not in ("i", "u", "f"):
        what = f"Gymnasium has no space for an observation of {dtype}"
        raise UnsupportedError(what, "let the environment return arrays of float32", where=path)
    low, high = (-np.inf, np.inf) if kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return spaces.Box(low, high, array.shape, dtype.type)


def gymnasium_space(space: Any) -> spaces.Space[Any]:
    """Return the Gymnasium space for a space of gymnax, JaxMARL or mjlab, which use the same names."""
    if isinstance(space, spaces.Space):
        return space
    kind = type(space).__name__
    if kind == "Discrete":
        return spaces.Discrete(int(space.n))
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.asarray(space.num_categories))
    if kind == "Box":
        dtype = np.dtype(space.dtype)
        low, high = (np.broadcast_to(np.asarray(one), space.shape) for one in (space.low, space.high))
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)
    if kind == "Dict":
        return spaces.Dict({key: gymnasium_space(one) for key, one in space.spaces.items()})
    if kind == "Tuple":
        return spaces.Tuple([gymnasium_space(one) for one in space.spaces])
    what = f"{with_article(kind)} is not a known space"
    raise UnsupportedError(what, "describe the environment with arrayferry.envs.register_environment")
