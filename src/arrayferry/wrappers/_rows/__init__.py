"""A vector environment whose batches lie on many devices, of this process and possibly of others.

What has a row for each environment is split: observations, rewards and dones. Infos, whose keys differ
between processes, and everything without such rows go to one device. Of what comes back, only this process's
rows are read. Nothing here waits for another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gymnasium import spaces
from gymnasium.vector import VectorEnv

from arrayferry._core.containers import container_of, registered_container
from arrayferry._core.convert import Converter, is_registered
from arrayferry._core.framework import Framework, Placement
from arrayferry._core.registry import decide_framework
from arrayferry._core.type_cache import TypeCache
from arrayferry._core.walk import Handler, Slot, key_text, unchanged, walk
from arrayferry._frameworks.jax import Jax
from arrayferry._frameworks.torch import Torch
from arrayferry.spaces.casting import rebuilt, subspaces
from arrayferry.wrappers._rows import jax, torch

__all__ = ["batch_devices", "converted_by", "row_reader", "split_observation"]


def batch_devices(framework: Framework, spec: Any, env: Any) -> tuple[Any, Any]:
    """Return where an environment's batches go, and where everything else goes: usually the same device."""
    rows: jax.Rows | torch.Rows | None = None
    if isinstance(env, VectorEnv) and isinstance(framework, Jax):
        rows = jax.rows_on(spec, env.num_envs)
    elif isinstance(env, VectorEnv) and isinstance(framework, Torch):
        rows = torch.rows_on(spec, env.num_envs)
    return (spec, spec) if rows is None else (rows, rows.local)


def row_reader(name: str, to_agent: Converter) -> Callable[[Any], Any]:
    """Return a function that replaces the agent's arrays in a value with this process's rows of them."""
    place: Placement = to_agent.device

    def read(array: Any, owned: bool) -> Any:
        return place.read(array)

    def decide(cls: type) -> Handler:
        if is_registered(cls):
            return registered_container(cls) or unchanged
        if (framework := decide_framework(cls)) is not None:
            return read if framework is to_agent.framework else unchanged
        return container_of(cls) or unchanged

    slots, handlers = (Slot(name),), TypeCache(decide)
    return lambda value: walk([value], slots, handlers)[0]


def converted_by(converter: Converter, slot: Slot) -> Slot:
    """Return a slot whose value goes through a converter other than its walker's."""
    convert = converter._walker([slot]).convert
    return slot._replace(scalar=lambda value: convert([value]))


def split_observation(slot: Slot, env: Any, batches: Converter, others: Converter) -> Slot:
    """Return the slot of an observation that splits only the parts that have rows according to their space.

    The arrays in a sequence or graph have any length, which may happen to be that of the batch.
    """
    space = env.single_observation_space
    if _has_rows(space):
        return slot
    return slot._replace(scalar=_observation_converter(space, slot, batches, others))


def _has_rows(space: spaces.Space[Any]) -> bool:
    """Return whether a batch of members consists of arrays with a row per member, or of no arrays."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return all(map(_has_rows, subspaces(space).values()))
    arrays = spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete, spaces.Text
    return isinstance(space, arrays)


def _observation_converter(
    space: spaces.Space[Any], slot: Slot, batches: Converter, others: Converter
) -> Callable[[Any], Any]:
    has_rows = _has_rows(space)
    whole: Any = converted_by(batches if has_rows else others, slot).scalar
    if has_rows or not isinstance(space, (spaces.Dict, spaces.Tuple)):
        return whole  # type: ignore[no-any-return]
    parts = {
        key: _observation_converter(part, slot._replace(name=slot.name + key_text(key)), batches, others)
        for key, part in subspaces(space).items()
    }

    def convert(value: Any) -> Any:
        keys = set(value) if isinstance(value, Mapping) else set(range(len(value)))
        return rebuilt(value, lambda key, one: parts[key](one)) if keys == parts.keys() else whole(value)

    return lambda value: convert(value) if isinstance(value, (Mapping, tuple, list)) else whole(value)
