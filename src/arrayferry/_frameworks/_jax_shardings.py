"""Shardings as plain data, so that they can be pickled and written as JSON, and made again from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry.errors import DeviceError

if TYPE_CHECKING:
    import jax

__all__ = ["as_data", "from_data"]


def as_data(sharding: jax.sharding.Sharding, name: Callable[[Any], str]) -> dict[str, Any]:
    """Return a sharding by the shape and axis names of its mesh, its spec, and the names of its devices."""
    import jax

    kind = {"memory_kind": sharding.memory_kind}
    if isinstance(sharding, jax.sharding.SingleDeviceSharding):
        [device] = sharding.device_set
        return {"devices": [name(device)], **kind}
    if isinstance(sharding, jax.sharding.NamedSharding) and isinstance(sharding.mesh, jax.sharding.Mesh):
        mesh = sharding.mesh
        spec = [list(part) if isinstance(part, tuple) else part for part in sharding.spec]
        return {
            "mesh": dict(zip(mesh.axis_names, mesh.devices.shape)),
            "spec": spec,
            "devices": [name(device) for device in mesh.devices.flat],
            **kind,
        }
    what = f"a {type(sharding).__name__} cannot be recorded"
    raise DeviceError(what, "pass a device, or a jax.sharding.NamedSharding")


def from_data(data: dict[str, Any], find: Callable[[str], Any]) -> jax.sharding.Sharding:
    """Return the sharding that `as_data` has described, on its devices or on as many others."""
    import jax

    devices = _devices(data["devices"], find)
    if "mesh" not in data:
        return jax.sharding.SingleDeviceSharding(devices[0], memory_kind=data["memory_kind"])
    axes = data["mesh"]
    mesh = jax.sharding.Mesh(np.array(devices).reshape(tuple(axes.values())), tuple(axes))
    spec = [tuple(part) if isinstance(part, list) else part for part in data["spec"]]
    partition = jax.sharding.PartitionSpec(*spec)  # type: ignore[no-untyped-call]
    return jax.sharding.NamedSharding(mesh, partition, memory_kind=data["memory_kind"])


def _devices(names: list[str], find: Callable[[str], Any]) -> list[Any]:
    import jax

    try:
        return [find(name) for name in names]
    except DeviceError as error:
        here = jax.devices()
        if len(here) < len(names):
            what = f"a sharding over {len(names)} devices cannot be made again: there are {len(here)} here"
            raise DeviceError(
                what, "start this process with as many devices, or pass another device"
            ) from error
        return list(here[: len(names)])
