"""One of several processes that step their own environments, into arrays of all processes.

Run as `python -m scale.global_child FRAMEWORK PORT INDEX STEPS FILE`; what it saw goes to the file.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arrayferry
from arrayferry.learners import tensordict_env
from arrayferry.scale import process_seed
from scale.episodes import SEED, make, policy, record

COUNT, ROWS = 2, 8


class Jax:
    """A mesh of two devices in each of two processes."""

    name = "jax"

    def __init__(self, port: int, index: int) -> None:
        import jax

        self.index = index
        jax.config.update("jax_enable_x64", True)
        here = f"127.0.0.1:{port}"
        jax.distributed.initialize(
            here, COUNT, index, coordinator_bind_address=here, initialization_timeout=120
        )
        mesh = jax.make_mesh((2 * COUNT,), ("env",))
        self.device = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("env"))
        self.policy = jax.jit(lambda obs: policy(obs, jax.numpy))
        self._array = jax.Array

    def check_other_meshes(self) -> None:
        """Rows that are replicated within a process, and rows of both processes in turn."""
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        devices = self.device.mesh.devices.reshape(2, 2)
        wanted, _ = make(ROWS).reset(seed=1)
        for mesh in Mesh(devices, ("env", "model")), Mesh(devices.T.ravel(), ("env",)):
            sharding = NamedSharding(mesh, PartitionSpec("env"))
            envs = arrayferry.wrap(make(ROWS), "jax", sharding)
            for _ in range(2):
                place = envs.reset(seed=1)[0]["place"]
                parts = {shard.index[0].start: shard.data for shard in place.addressable_shards}
                assert place.shape == (COUNT * ROWS, 4)
                assert (np.concatenate([parts[start] for start in sorted(parts)]) == wanted["place"]).all()
            action = (place[:, :2] > 0).astype(int)
            assert (envs._boundary.convert_action(action) == (wanted["place"][:, :2] > 0)).all()

    def refusals(self, envs: Any) -> dict[str, Callable[[], Any]]:
        import jax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        mesh: Any = self.device.mesh
        everywhere = NamedSharding(mesh, PartitionSpec())
        grid = Mesh(mesh.devices.reshape(2, 2), ("model", "env"))  # an axis of processes without rows
        there = Mesh([device for device in jax.devices() if device not in jax.local_devices()], ("env",))
        columns = jax.make_array_from_single_device_arrays(
            (COUNT * ROWS, 4),
            NamedSharding(mesh, PartitionSpec(None, "env")),
            [jax.device_put(np.zeros((COUNT * ROWS, 1)), device) for device in jax.local_devices()],
        )
        return {
            "only a vector environment": lambda: arrayferry.Converter("jax", self.device),
            "devices of 2 processes": lambda: arrayferry.wrap(make(ROWS), "jax", everywhere),
            "on devices of 2 processes": lambda: arrayferry.wrap(
                make(ROWS), "jax", NamedSharding(grid, PartitionSpec("env"))
            ),
            "no device of this process": lambda: arrayferry.wrap(
                make(ROWS), "jax", NamedSharding(there, PartitionSpec("env"))
            ),
            "7 environments cannot be divided among the 2 parts of the mesh of this process": lambda: (
                arrayferry.wrap(make(7), "jax", self.device)
            ),
            "does not hold its rows": lambda: envs.step(columns),
        }

    def rows(self, array: Any) -> np.ndarray:
        assert array.sharding == self.device
        assert array.shape[0] == COUNT * ROWS
        assert array._committed
        return np.concatenate([shard.data for shard in array.addressable_shards])

    def replicated(self, array: np.ndarray) -> Any:
        import jax

        sharding = jax.sharding.NamedSharding(self.device.mesh, jax.sharding.PartitionSpec())
        parts = [jax.device_put(array, device) for device in jax.local_devices()]
        return jax.make_array_from_single_device_arrays(array.shape, sharding, parts)

    def alone(self, array: np.ndarray) -> Any:
        import jax

        return jax.device_put(array, jax.local_devices()[1])

    def check_info(self, leaf: Any) -> None:
        assert not isinstance(leaf, self._array) or len(leaf.devices()) == 1

    def end(self) -> None:
        assert self.policy._cache_size() == 1, "the policy was compiled again"


class Torch:
    """A mesh of two ranks."""

    name = "torch"

    def __init__(self, port: int, index: int) -> None:
        import torch
        from torch.distributed.tensor import DTensor, Shard

        self.index = index
        torch.set_num_threads(1)
        address = f"tcp://127.0.0.1:{port}"
        torch.distributed.init_process_group("gloo", init_method=address, rank=index, world_size=COUNT)
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (COUNT,), mesh_dim_names=("env",))
        self.device = mesh, [Shard(0)]
        self.policy = lambda obs: policy(obs, torch)
        self._dtensor, self._plain, self._distributed = DTensor, torch.Tensor, torch.distributed

    def check_other_meshes(self) -> None:
        """Two dimensions, of which one has both processes."""
        import torch
        from torch.distributed.tensor import Replicate, Shard

        wanted, _ = make(ROWS).reset(seed=1)
        for shape in (COUNT, 1), (1, COUNT):
            mesh = torch.distributed.device_mesh.init_device_mesh("cpu", shape)
            for other in Shard(0), Replicate():
                placements = [Shard(0) if size > 1 else other for size in shape]
                place = arrayferry.wrap(make(ROWS), "torch", (mesh, placements)).reset(seed=1)[0]["place"]
                assert place.shape == (COUNT * ROWS, 4)
                assert (place.to_local().numpy() == wanted["place"]).all()

    def refusals(self, envs: Any) -> dict[str, Callable[[], Any]]:
        import torch
        from torch.distributed.tensor import Replicate, Shard

        mesh, shard = self.device
        columns = self._dtensor.from_local(torch.zeros(COUNT * ROWS, 1), mesh, [Shard(1)], run_check=False)
        few = self._dtensor.from_local(torch.zeros(1), mesh, shard, run_check=False)
        return {
            "for the rows of a vector environment": lambda: arrayferry.Converter("torch", self.device),
            "Replicate() does not split the rows of 2 processes": lambda: arrayferry.wrap(
                make(ROWS), "torch", (mesh, [Replicate()])
            ),
            "2 placements for a mesh of 1 dim": lambda: arrayferry.wrap(
                make(ROWS), "torch", (mesh, shard * 2)
            ),
            "pass a list": lambda: arrayferry.wrap(make(ROWS), "torch", (mesh, Shard(0))),
            "with a device mesh": lambda: tensordict_env(make(ROWS), self.device),
            "does not hold its rows": lambda: envs.step(columns),
            "does not hold its rows of a DTensor of shape (2,)": lambda: envs.step(few),
        }

    def rows(self, tensor: Any) -> np.ndarray:
        assert type(tensor) is self._dtensor
        assert tensor.shape[0] == COUNT * ROWS
        assert (tensor.device_mesh, list(tensor.placements)) == self.device
        return tensor.to_local().numpy()

    def replicated(self, array: np.ndarray) -> Any:
        from torch.distributed.tensor import Replicate

        mesh, _ = self.device
        return self._dtensor.from_local(self.alone(array), mesh, [Replicate()], run_check=False)

    def alone(self, array: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(array.copy())

    def check_info(self, leaf: Any) -> None:
        assert not isinstance(leaf, self._dtensor)

    def end(self) -> None:
        self._distributed.barrier()
        self._distributed.destroy_process_group()


def main(framework: str, port: str, index: str, steps: str, file: str) -> None:
    child = {"jax": Jax, "torch": Torch}[framework](int(port), int(index))
    envs = arrayferry.wrap(make(ROWS), framework, child.device)
    for words, call in child.refusals(envs).items():
        with pytest.raises(arrayferry.FerryError, match=re.escape(words)):
            call()
    child.check_other_meshes()
    _act_anyhow(child, envs)

    def recorded(obs: Any, *others: Any) -> list[Any]:
        *arrays, info = others
        for leaf in _leaves(info):
            child.check_info(leaf)
        seen = {key: child.rows(one) for key, one in obs.items()}
        return record(ROWS, seen, *map(child.rows, arrays), arrayferry.convert(info, "numpy"))

    obs, info = envs.reset(seed=process_seed(SEED, ROWS))
    records = [recorded(obs, info)]
    for _ in range(int(steps)):
        obs, *others = envs.step(child.policy(obs))
        records.append(recorded(obs, *others))
    child.end()
    Path(file).write_bytes(pickle.dumps(records))


def _act_anyhow(child: Any, envs: Any) -> None:
    """Take actions that every process has whole, or only this one; and sample some."""
    wanted = np.arange(2 * COUNT * ROWS).reshape(-1, 2) % 2
    here = wanted[child.index * ROWS :][:ROWS]
    convert = envs._boundary.convert_action
    for action in child.replicated(wanted), child.alone(here), here:
        assert (convert(action) == here).all(), action
    target = arrayferry.wrap(make(ROWS), child.name, child.device, spaces="target")
    for twin in target, pickle.loads(pickle.dumps(target)):
        assert (sample := twin.action_space.sample()) in twin.action_space
        assert (convert(sample) == child.rows(sample)).all()
        assert twin.observation_space.sample() in twin.observation_space


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    is_container = isinstance(value, list) or (isinstance(value, np.ndarray) and value.dtype == object)
    return [leaf for one in value for leaf in _leaves(one)] if is_container else [value]


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main(*sys.argv[1:])
