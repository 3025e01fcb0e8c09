"""A vector environment whose batches lie on many devices, of this process and possibly of others.

What has a row for each environment is split: observations, rewards and dones. Infos, whose keys differ
between processes, and everything without such rows go to one device. Of what comes back, only this process's
rows are read. Nothing here waits for another process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium.vector import VectorEnv

from arrayferry._boundary.rows import jax, torch
from arrayferry._core.convert import Converter
from arrayferry._core.framework import Framework, Placement
from arrayferry._core.walk import Slot, walk
from arrayferry.errors import UnsupportedError
from arrayferry.spaces.casting import visitor
from arrayferry.spaces.structure import has_fixed_shape

__all__ = ["batch_devices", "row_reader"]


def batch_devices(framework: Framework, spec: Any, env: Any) -> tuple[Any, Any]:
    """Return where an environment's batches go, and where everything else goes: usually the same device."""
    modules = {"jax": jax, "torch": torch} if isinstance(env, VectorEnv) else {}
    module: Any = modules.get(framework.name)
    if module is None or (rows := module.rows_on(spec, env.num_envs)) is None:
        return spec, spec
    # The arrays in a sequence or graph have any length, which may happen to be that of the batch.
    if not has_fixed_shape(env.single_observation_space, or_is_text=True):
        what = f"observations in {env.single_observation_space} are not arrays with a row per environment"
        raise UnsupportedError(what, "pass a single device, or change the space in a wrapper")
    return rows, rows.local


def row_reader(name: str, to_agent: Converter) -> Callable[[Any], Any]:
    """Return a function that replaces the agent's arrays in a value with this process's rows of them."""
    place: Placement = to_agent.device
    slots, handlers = (Slot(name),), visitor(lambda leaf, owned: place.read(leaf))
    return lambda value: walk([value], slots, handlers)[0]
