"""What `explain` says of the way that an array takes to a device, from one, or between two."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from arrayferry import explain, register_framework
from late_device.dlpack_framework import Toy, ToyArray
from late_device.envs import Rows

pytestmark = pytest.mark.late

WAYS = [
    ("cpu", "torch", "late:0", "it goes to late:0, in one transfer with the others"),
    ("late:0", "numpy", None, "it comes from late:0, with one wait for all that do"),
    ("late:0", "torch", "cpu", "it comes from late:0, with one wait for all that do"),
    ("late:0", "jax", "cpu", "it comes from late:0, with one wait for all that do"),
    ("late:0", "torch", "late:0", "it stays on late:0, and nobody waits"),
    ("late:1", "torch", None, "it stays on late:1, and nobody waits"),
    ("late:0", "torch", "late:1", "it goes from late:0 to late:1, and nobody waits"),
]


@pytest.mark.parametrize(("source", "to", "device", "why"), WAYS)
def test_way_of_a_tensor(source, to, device, why):
    leaf = explain({"x": torch.ones(3).to(source)}, to, device=device).leaves[0]
    assert (leaf.path, leaf.memory, leaf.why) == ('value["x"]', "copied", why)
    assert leaf.route == (("torch", "numpy", "jax") if to == "jax" else ("torch", to))


def test_way_of_a_numpy_array():
    leaf = explain(np.ones(3), "torch", device="late:1").leaves[0]
    assert (leaf.memory, leaf.why) == ("copied", "it goes to late:1, in one transfer with the others")


def test_way_between_frameworks():
    register_framework(Toy(immutable=True))
    leaf = explain(ToyArray([1, 2]), "torch", device="late:0").leaves[0]
    assert leaf.route == ("toy", "dlpack", "torch")
    assert leaf.verdict == "copied: it stays on 0, and nobody waits"
    sparse = explain(torch.ones(3, device="late"), "dask").leaves[0]
    assert sparse.route == ("torch", "numpy", "dask")
    assert "so it goes through the host" in sparse.why


ACTIONS = [
    ("late:0", "late:0", "it stays on late:0, and nobody waits"),
    ("late:0", "late:1", "it goes from late:1 to late:0, and nobody waits"),
    ("late:0", "cpu", "it goes to late:0, in one transfer with the others"),
    ("numpy", "late:1", "it comes from late:1, with one wait for all that do"),
]


@pytest.mark.parametrize(("env", "agent", "why"), ACTIONS)
def test_way_of_an_action(env, agent, why):
    known = {"env_xp": "numpy"} if env == "numpy" else {"env_xp": "torch", "env_device": env}
    leaves = {leaf.path: leaf for leaf in explain(Rows(env), "torch", agent, steps=1, **known).leaves}
    assert (leaves["action"].memory, leaves["action"].why) == ("copied", why)
