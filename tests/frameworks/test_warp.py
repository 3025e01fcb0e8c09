"""Warp as a framework: arrays of scalars, vectors, matrices, quaternions and structs, and `indexedarray`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from arrayferry import convert
from arrayferry.testing import CHECKS

wp = pytest.importorskip("warp")
pytestmark = pytest.mark.packages

TARGETS = ["numpy", "torch", "jax", "warp"]
BASE = np.arange(24, dtype=np.float32)

ARRAYS: dict[str, Any] = {
    "scalars": lambda: wp.array(BASE.reshape(2, 3, 4)),
    "transposed": lambda: wp.array(BASE.reshape(4, 6)).transpose(),
    "vectors": lambda: wp.array(BASE.reshape(8, 3), dtype=wp.vec3),
    "matrices": lambda: wp.array(BASE.reshape(6, 2, 2), dtype=wp.mat22),
    "quaternions": lambda: wp.array(BASE.reshape(6, 4), dtype=wp.quat),
    "transforms": lambda: wp.array(BASE[:21].reshape(3, 7), dtype=wp.transform),
    "with a gradient": lambda: wp.array(BASE, requires_grad=True),
    "indexed": lambda: wp.indexedarray(wp.array(BASE.reshape(4, 6)), [wp.array([2, 0], dtype=int), None]),
    "empty": lambda: wp.zeros((0, 3)),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_conforms(check):
    check("warp")


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("kind", ARRAYS)
def test_every_kind_of_array(kind, to):
    source = ARRAYS[kind]()
    want = source.numpy().copy()
    found = convert({"x": source}, to)["x"]
    if to == "warp":
        assert found.dtype is source.dtype
        assert not found.requires_grad
    (source.data if kind == "indexed" else source).fill_(-1.0)
    seen = found.numpy() if to == "warp" else np.asarray(found)
    assert seen.shape == want.shape
    assert np.array_equal(seen, want), "it sees what is written to the original later"


def test_structs_are_structured_arrays_in_numpy_and_stay_elsewhere():
    @wp.struct
    class Body:
        mass: float
        position: wp.vec3

    bodies = wp.zeros(2, dtype=Body)
    found = convert([bodies], "numpy")[0]
    assert found.dtype.names == ("mass", "position")
    assert found.flags.writeable
    assert not np.shares_memory(found, bodies.numpy())
    assert convert([bodies], "torch")[0] is bodies
    again = convert([bodies], "warp")[0]
    assert again is not bodies
    assert again.dtype is bodies.dtype


def test_numbers_are_warp_s_scalars_and_come_back_as_they_were():
    value = {"a": 1, "b": 2.5, "c": np.array(3, np.uint8), "d": True, "e": np.bool_(True)}
    found = convert(value, "warp")
    assert [type(one) for one in found.values()] == [wp.int64, wp.float64, wp.uint8, bool, wp.bool]
    back = convert(found, "numpy")
    assert [(one.dtype.name, one.item()) for one in (back["a"], back["b"], back["c"], back["e"])] == [
        ("int64", 1),
        ("float64", 2.5),
        ("uint8", 3),
        ("bool", True),
    ]
    assert convert(wp.float32(0.5), "torch").item() == 0.5


def test_refusals():
    with pytest.raises(arrayferry.errors.UnsupportedError, match=r'value\["x"\]: .*5 dimensions.*4 at most'):
        convert({"x": np.zeros((1, 1, 1, 1, 1))}, "warp")
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    for source in (read_only, ARRAYS["indexed"](), wp.float32(1.0), np.array(1.0)):
        to = "warp" if isinstance(source, np.ndarray) else "numpy"
        with pytest.raises(arrayferry.errors.SharingError):
            convert(source, to, copy=False)
    with pytest.raises(arrayferry.errors.DeviceError, match="cpu"):
        convert(BASE, "warp", "cuda:7")


def test_memory_is_shared_on_purpose():
    array = BASE.copy()
    view = convert([array], "warp", copy=False)[0]
    view.fill_(7.0)
    assert (array == 7).all()
    assert convert([view], "numpy", copy=False)[0].ctypes.data == array.ctypes.data
    assert convert([view], "warp", copy=False)[0] is view


def test_casts_within_warp():
    found = convert(wp.array(BASE.astype(np.float64)), "warp", dtypes={"float64": "float32"})
    assert found.dtype is wp.float32
    assert np.array_equal(found.numpy(), BASE)


def test_environments():
    bare, envs = gym.make_vec("Pendulum-v1", 3), arrayferry.wrap(gym.make_vec("Pendulum-v1", 3), "warp")
    want, got = bare.reset(seed=1)[0], envs.reset(seed=1)[0]
    assert isinstance(got, wp.array)
    assert np.array_equal(got.numpy(), want)
    action = np.array([[0.5], [1.0], [-1.0]], np.float32)
    for one, other in zip(envs.step(wp.array(action))[:4], bare.step(action)[:4]):
        assert np.array_equal(one.numpy(), other)
    env = arrayferry.wrap(gym.make("CartPole-v1"), "warp")
    env.reset(seed=1)
    assert isinstance(env.step(wp.int64(1))[0], wp.array)


class Simulated(gym.Env):
    """Simulates in Warp, and takes Warp's arrays."""

    observation_space = gym.spaces.Box(-10, 10, (2, 3))
    action_space = gym.spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        self.state = wp.zeros(2, dtype=wp.vec3)
        return self.state, {}

    def step(self, action):
        assert isinstance(action, wp.array)
        self.state.fill_(wp.vec3(1.0, 2.0, float(action.numpy()[0])))
        return self.state, 0.0, False, False, {"contacts": wp.zeros(2, dtype=wp.int32)}


def test_an_environment_that_simulates_in_warp():
    torch = pytest.importorskip("torch")
    env = arrayferry.wrap(Simulated(), "torch", env_xp="warp")
    first, _ = env.reset()
    obs, *_, info = env.step(torch.tensor([0.5, 0.25]))
    assert first.tolist() == [[0, 0, 0]] * 2
    assert obs.tolist() == [[1, 2, 0.5]] * 2
    assert info["contacts"].dtype is torch.int32
