"""Shardings as plain data, which can be pickled or written as JSON, and turned into shardings again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.messages import with_article
from arrayferry.errors import DeviceError

if TYPE_CHECKING:
    import jax


def has_mesh(device: Any) -> bool:
    """Return whether a device is a sharding over the devices of a mesh."""
    import jax

    return isinstance(device, jax.sharding.NamedSharding) and isinstance(device.mesh, jax.sharding.Mesh)


def as_data(sharding: jax.sharding.Sharding, name: Callable[[Any], str]) -> dict[str, Any]:
    """Describe a sharding by the shape and axis names of its mesh, its spec, and the names of its devices."""
    import jax

    memory = {"memory_kind": sharding.memory_kind}
    if isinstance(sharding, jax.sharding.SingleDeviceSharding):
        [device] = sharding.device_set
        return {"devices": [name(device)], **memory}
    if isinstance(sharding, jax.sharding.NamedSharding) and has_mesh(sharding):
        mesh: Any = sharding.mesh
        spec = [list(part) if isinstance(part, tuple) else part for part in sharding.spec]
        return {
            "mesh": dict(zip(mesh.axis_names, mesh.devices.shape)),
            "axis_types": [kind.name for kind in mesh.axis_types],
            "spec": spec,
            "devices": [name(device) for device in mesh.devices.flat],
            **memory,
        }
    what = f"{with_article(type(sharding).__name__)} cannot be recorded"
    raise DeviceError(what, "pass a device, or a jax.sharding.NamedSharding")


def from_data(data: dict[str, Any], find: Callable[[str], Any]) -> jax.sharding.Sharding:
    """Return the sharding that `as_data` described, on the same devices or on as many others."""
    import jax

    devices = _devices(data["devices"], find)
    if "mesh" not in data:
        return jax.sharding.SingleDeviceSharding(devices[0], memory_kind=data["memory_kind"])
    axes = data["mesh"]
    kinds = tuple(jax.sharding.AxisType[name] for name in data["axis_types"])
    mesh = jax.sharding.Mesh(np.array(devices).reshape(tuple(axes.values())), tuple(axes), axis_types=kinds)
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
            what = f"a sharding over {len(names)} devices cannot be recreated: only {len(here)} are here"
            raise DeviceError(
                what, "start this process with as many devices, or pass another device"
            ) from error
        return list(here[: len(names)])
