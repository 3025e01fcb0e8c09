"""Rows of a batch as DTensors: each process of torch.distributed has some of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arrayferry._core.framework import Deferred, Placement, Target
from arrayferry._frameworks.torch import Torch
from arrayferry.errors import DeviceError, UnsupportedError

if TYPE_CHECKING:
    import torch


def rows_on(spec: Any, count: int) -> Rows | None:
    """Return the place for batches of `count` rows: for a pair of a mesh and its placements; else None."""
    if isinstance(spec, Rows):
        return Rows(spec.mesh, spec.placements, count)
    if not isinstance(spec, (tuple, list)) or len(spec) != 2 or not hasattr(spec[0], "get_coordinate"):
        return None
    mesh, placements = spec
    if not isinstance(placements, (tuple, list)):
        raise DeviceError(f"{placements!r} is not a list of placements", "pass a list: (mesh, [Shard(0)])")
    return Rows(mesh, tuple(placements), count)


@dataclass(frozen=True)
class Rows(Placement):
    """The place for the rows of a vector environment: a `DeviceMesh` and placements on it.

    A tensor with as many rows as this process has becomes its part of a DTensor that has the rows of all
    processes. Any other tensor stays a plain one.

    Attributes:
        mesh: the `torch.distributed.device_mesh.DeviceMesh`.
        placements: how the rows are distributed over it.
        count: how many rows this process has.
    """

    mesh: Any
    placements: tuple[Any, ...]
    count: int

    def __post_init__(self) -> None:
        """Refuse now what cannot work, while the user can still act on it."""
        import torch.distributed.tensor

        if not hasattr(torch.distributed.tensor, "DTensor"):
            raise DeviceError(
                f"torch {torch.__version__} has no public DTensor", "install torch 2.5 or newer"
            )
        if len(self.placements) != self.mesh.ndim:
            what = f"{len(self.placements)} placements for a mesh of {self.mesh.ndim} dimensions"
            raise DeviceError(what, "pass one placement for each dimension of the mesh")
        for placement, size in zip(self.placements, self.mesh.shape):
            if not placement.is_shard(0) and not (placement.is_replicate() and size == 1):
                what = f"{placement!r} does not split the rows of {size} processes, which all differ"
                hint = "pass Shard(0); if the mesh has other dimensions, pass a part of it: mesh['env']"
                raise DeviceError(what, hint)
        if self.mesh.get_coordinate() is None:
            what = "the mesh does not include this process"
            raise DeviceError(what, "build the mesh from all processes that step environments")

    @cached_property
    def local(self) -> torch.device:
        """The device of this process, for all other tensors."""
        import torch

        return torch.device(self.mesh.device_type)

    def target(self) -> Target:
        """Return how tensors with these rows become DTensors, and all others stay plain ones."""
        local = Torch().target(self.local)
        from_bits: Any = local.from_bits
        share, copy_to = local.share, local.within
        assert copy_to is not None
        return local._replace(
            take=lambda array: self._join(local.take(array)),
            result_type=None,
            from_bits=from_bits and (lambda bits, name: self._join(from_bits(self.read(bits), name))),
            share=share and (lambda array: self._join(share(array))),
            within=lambda tensor, dtype: self._join(copy_to(self.read(tensor), dtype)),
            holds=lambda tensor: local.holds(self.read(tensor)),
        )

    def _join(self, tensor: Any) -> Any:
        """Return this process's batch as its part of the DTensor of all processes; any other tensor as is."""
        from torch.distributed.tensor import DTensor

        if type(tensor) is Deferred:
            return tensor._replace(array=self._join(tensor.array))
        if tensor.shape[:1] != (self.count,):
            return tensor
        return DTensor.from_local(tensor, self.mesh, self.placements, run_check=False)

    def read(self, array: Any) -> Any:
        """Return this process's rows of a DTensor with those of all processes; any other tensor as it is."""
        from torch.distributed.tensor import DTensor

        if not isinstance(array, DTensor):
            return array
        tensor: Any = array
        if not self._has_rows(tensor):
            shape, where = tuple(tensor.shape), f"{tensor.placements} on {tensor.device_mesh}"
            what = f"this process does not hold its rows of a DTensor of shape {shape}, placed as {where}"
            hint = f"redistribute() it as {list(self.placements)} on {self.mesh}, or pass its to_local()"
            raise UnsupportedError(what, hint)
        if tensor.placements != self.placements:
            tensor = tensor.redistribute(self.mesh, self.placements)  # every process has it: no collective
        local = tensor.to_local()
        return local.wait() if hasattr(local, "wait") else local  # the result of the agent's own collective

    def _has_rows(self, tensor: Any) -> bool:
        """Return whether a DTensor has the rows of all processes, and this process holds its own."""
        if tensor.shape[:1] != (self.count * self.mesh.size(),) or tensor.device_mesh != self.mesh:
            return False
        pairs = zip(tensor.placements, self.placements)
        return all(placement == own or placement.is_replicate() for placement, own in pairs)
