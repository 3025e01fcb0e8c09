"""Rows of a batch on many devices of JAX: each process has some of them, and knows where the others are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from arrayferry._core.framework import Array, Placement, Target
from arrayferry._frameworks.jax import Jax, array_type, copy_to, faster, has_mesh, is_on, refuse_if_forked
from arrayferry.errors import DeviceError, UnsupportedError

if TYPE_CHECKING:
    import jax

_jax = Jax()


def rows_on(spec: Any, count: int) -> Rows | None:
    """Return the place for batches of `count` rows; None if it is a single device."""
    sharding = spec.sharding if isinstance(spec, Rows) else _jax.find_device(spec)
    return Rows(sharding, count) if has_mesh(sharding) else None


@dataclass(frozen=True)
class Rows(Placement):
    """The place for the rows of a vector environment: one sharding for the rows of all processes.

    An array with as many rows as this process has is split; it becomes the process's part of an array that
    has the rows of all processes. Any other array goes to one device.

    Attributes:
        sharding: the sharding, over devices of this process and maybe of others.
        count: how many rows this process has.
    """

    sharding: jax.sharding.NamedSharding
    count: int

    def __post_init__(self) -> None:
        """Refuse now what cannot work, while the user can still act on it."""
        spec = self.sharding.spec
        if any(part is not None for part in spec[1:]):
            what = f"{spec} splits more than the first axis, which is that of the environments"
            raise DeviceError(what, "name mesh axes only for the first axis: PartitionSpec('env')")
        if not self._local_parts:
            what = "the sharding has no device of this process"
            raise DeviceError(what, "build the mesh from the devices of all processes that step environments")
        if shared := next((processes for processes in self._processes.values() if len(processes) > 1), None):
            what = f"each row would be on devices of {len(shared)} processes, each with its own environments"
            raise DeviceError(what, "keep the mesh axes that are not in the PartitionSpec within one process")
        if self.count % len(self._local_parts):
            parts = len(self._local_parts)
            whose = "" if len(self._processes) == parts else " of this process"
            what = f"{self.count} environments cannot be divided among the {parts} parts of the mesh{whose}"
            raise DeviceError(what, f"make {parts} environments, or a multiple of that")

    @cached_property
    def _parts(self) -> dict[Any, int]:
        """The number of the part that each device holds."""
        indices = self.sharding.devices_indices_map((self.sharding.mesh.size,))
        starts = {device: index[0].start or 0 for device, index in indices.items()}
        in_order = sorted({*starts.values()})
        return {device: in_order.index(start) for device, start in starts.items()}

    @cached_property
    def _processes(self) -> dict[int, set[int]]:
        """The processes that hold each part."""
        processes: dict[int, set[int]] = {}
        for device, part in self._parts.items():
            processes.setdefault(part, set()).add(device.process_index)
        return processes

    @cached_property
    def _local_parts(self) -> list[int]:
        """The parts that this process holds, in order."""
        return sorted({self._parts[device] for device in self.sharding.addressable_devices})

    @cached_property
    def total(self) -> int:
        """How many rows all processes have."""
        return self.count // len(self._local_parts) * len(self._processes)

    @cached_property
    def indices(self) -> dict[Any, slice]:
        """The rows of this process that each of its devices holds."""
        size, own = self.count // len(self._local_parts), self._local_parts
        starts = {device: size * own.index(part) for device, part in self._parts.items() if part in own}
        return {device: slice(start, start + size) for device, start in starts.items()}

    @cached_property
    def local(self) -> Any:
        """The device for all other arrays."""
        return next(iter(self.indices))

    def target(self) -> Target:
        """Return how arrays with these rows are split, and how all others are made on one device."""
        local, put_rows = _jax.target(self.local), faster(self.join, self.indices)

        def within(array: jax.Array, dtype: str | None) -> jax.Array | None:
            is_split = self._is_split(array)
            has_rows = is_split or self._has_rows(array)
            copy = copy_to(None if has_rows else self.local, array, dtype)
            return copy if copy is None or is_split or not has_rows else self.join(copy).block_until_ready()

        return local._replace(
            take=lambda array: put_rows(array) if self._has_rows(array) else local.take(array),
            share=None,
            within=within,
            holds=lambda array: self._is_split(array) or (not self._has_rows(array) and local.holds(array)),
        )

    def _has_rows(self, array: Any) -> bool:
        """Return whether an array has a row for each environment of this process."""
        return bool(array.shape[:1] == (self.count,))

    def _is_split(self, array: jax.Array) -> bool:
        """Return whether an array has the rows of all processes, where they belong."""
        return is_on(self.sharding, array) and array.shape[:1] == (self.total,)

    def join(self, array: Any) -> jax.Array:
        """Return this process's batch as its part of the array of all processes."""
        import jax

        refuse_if_forked()
        single, kind = jax.sharding.SingleDeviceSharding, self.sharding.memory_kind
        places = {single(device, memory_kind=kind): index for device, index in self.indices.items()}
        parts = [jax.device_put(array[index], place) for place, index in places.items()]
        shape = (self.total, *array.shape[1:])
        return jax.make_array_from_single_device_arrays(shape, self.sharding, parts)

    def read(self, array: Any) -> Any:
        """Return this process's rows of an array with those of all processes; any other array as it is."""
        if type(array) is not array_type() or array.shape[:1] != (self.total,) or array.is_deleted():
            return array
        if array.sharding.is_equivalent_to(self.sharding, array.ndim):
            parts: list[Array] = [*map(np.asarray, map(array.addressable_data, self._positions))]
            return parts[0] if len(parts) == 1 else np.concatenate(parts)
        if self.total == self.count:
            return array
        if not array.is_fully_replicated:
            what = f"this process does not hold its rows of an array with {array.sharding}"
            hint = f"let the policy return it with the sharding of its observations, {self.sharding}"
            raise UnsupportedError(what, hint)
        size = self.count // len(self._local_parts)
        rows: Array = np.asarray(array).reshape(-1, size, *array.shape[1:])[self._local_parts]
        return rows.reshape(self.count, *array.shape[1:])

    @cached_property
    def _positions(self) -> list[int]:
        """Which of the local pieces of an array with this sharding hold this process's rows, in order."""
        devices = self.sharding.addressable_devices_indices_map((self.total,))
        parts = [self._parts[device] for device in devices]
        return [parts.index(part) for part in self._local_parts]

    def __reduce__(self) -> tuple[Any, ...]:
        return rows_on, (_jax.device_name(self.sharding), self.count)
