"""Shardings as plain data, which can be pickled or written as JSON, and turned into shardings again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from arrayferry._core.messages import with_article
from arrayferry._frameworks._lazy import jax
from arrayferry.errors import DeviceError


@lru_cache(1024)
def is_on_cpu(sharding: jax.sharding.Sharding) -> bool:
    """Return whether all devices of a sharding are CPUs, where NumPy sees memory."""
    devices: Any = sharding.device_set
    return all(device.platform == "cpu" for device in devices)


def has_mesh(device: Any) -> bool:
    """Return whether a device is a sharding over the devices of a mesh."""
    return isinstance(device, jax.sharding.NamedSharding) and isinstance(device.mesh, jax.sharding.Mesh)


def as_data(sharding: jax.sharding.Sharding, name: Callable[[Any], str]) -> dict[str, Any]:
    """Describe a sharding by the shape and axis names of its mesh, its spec, and the names of its devices."""
    memory = {"memory_kind": sharding.memory_kind}
    if isinstance(sharding, jax.sharding.SingleDeviceSharding):
        [device] = sharding.device_set
        return {"devices": [name(device)], **memory}
    if isinstance(sharding, jax.sharding.NamedSharding) and has_mesh(sharding):
        mesh: Any = sharding.mesh
        return {
            "mesh": dict(mesh.shape),
            "axis_types": [kind.name for kind in mesh.axis_types],
            "spec": [list(part) if isinstance(part, tuple) else part for part in sharding.spec],
            "devices": [name(device) for device in mesh.devices.flat],
            **memory,
        }
    what = f"{with_article(type(sharding).__name__)} cannot be recorded"
    raise DeviceError(what, "pass a device, or a jax.sharding.NamedSharding")


def from_data(data: dict[str, Any], find: Callable[[str], Any]) -> jax.sharding.Sharding:
    """Return the sharding that `as_data` described, on the same devices or on as many others."""
    names = data["devices"]
    try:
        devices = [find(name) for name in names]
    except DeviceError as error:
        devices = jax.devices()[: len(names)]
        if len(devices) < len(names):
            what = f"a sharding over {len(names)} devices cannot be recreated: only {len(devices)} are here"
            hint = "start this process with as many devices, or pass another device"
            raise DeviceError(what, hint) from error
    if "mesh" not in data:
        return jax.sharding.SingleDeviceSharding(devices[0], memory_kind=data["memory_kind"])
    axes = data["mesh"]
    kinds = tuple(jax.sharding.AxisType[name] for name in data["axis_types"])
    mesh = jax.sharding.Mesh(np.array(devices).reshape(tuple(axes.values())), tuple(axes), axis_types=kinds)
    spec = [tuple(part) if isinstance(part, list) else part for part in data["spec"]]
    partition = jax.sharding.PartitionSpec(*spec)  # type: ignore[no-untyped-call]
    return jax.sharding.NamedSharding(mesh, partition, memory_kind=data["memory_kind"])
