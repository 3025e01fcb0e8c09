"""Every refusal of the library: what one does, and the error it gives. A page of the docs is made of it."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any
from unittest.mock import patch

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import arrayferry
from arrayferry import Converter, FerryError, Framework, convert, wrappers
from arrayferry._core import registry, type_cache
from arrayferry.testing import at_offset
from arrayferry.wrappers import _watch
from arrayferry.wrappers._autoreset import with_dense_final
from arrayferry.wrappers._place import Place
from arrayferry.wrappers.pettingzoo import AECArrayConversion, ParallelArrayConversion
from reliability.inputs import INPUTS, REFUSALS, _on_two, _read_only
from zoo import Zoo, aec

Call = Callable[[], Any]

F4 = np.arange(6, dtype="float32").reshape(2, 3)


def _input(name: str) -> Call:
    """Convert one of the bad inputs to the first framework that refuses it."""
    target = next(target for one, target in REFUSALS if one == name)

    def call() -> None:
        errors: list[Exception] = []

        def use(value: Any) -> None:
            try:
                convert({"x": value}, target)
            except FerryError as error:
                errors.append(error)

        INPUTS[name].use(use)
        raise errors[0]

    return call


VALUES: dict[str, Call] = {name: _input(name) for name in dict(REFUSALS)}


class _Unbuildable(Mapping[str, Any]):
    """Makes its values when it is asked, and takes other arguments than its items."""

    def __init__(self, path: str, mode: str) -> None:
        self.path = path

    def __getitem__(self, key: str) -> Any:
        return F4

    def __iter__(self) -> Any:
        return iter("x")

    def __len__(self) -> int:
        return 1


class _Mine:
    """An array of a framework that fails."""

    shape, dtype = (2,), np.dtype("float32")


def _failing(*_: Any) -> Any:
    raise RuntimeError("out of memory")


_WITHOUT_ARRAY_API = Framework(
    name="bytes",
    modules=("builtins",),
    arrays=(),
    to_numpy=lambda value, share: np.frombuffer(value, np.uint8),
    from_numpy=lambda array, device, share: array.tobytes(),
    dtypes=lambda device: frozenset({"uint8"}),
)


def _with_framework(call: Call, **changes: Any) -> Call:
    """Call with a framework of its own in the registry: NumPy without its shortcuts, and with changes."""

    def registered() -> None:
        numpy = registry.registered()["numpy"]
        needed = {name: getattr(numpy, name) for name in ("modules", "to_numpy", "from_numpy", "dtypes")}
        arrayferry.register_framework(Framework(**{"name": "mylib", "arrays": (), **needed, **changes}))
        try:
            call()
        finally:
            del registry._registry["mylib"]
            type_cache.forget_decisions()

    return registered


def _asarray(x: Any, copy: bool | None = None) -> Any:
    return np.array(x, copy=True)


def _stranger(**contents: Any) -> ModuleType:
    module = ModuleType("stranger")
    vars(module).update(contents)
    return module


def _without_ml_dtypes(*arguments: Any, **options: Any) -> Any:
    with patch.dict(sys.modules, {"ml_dtypes": None}):
        return convert(*arguments, **options)


STRUCTURES: dict[str, Call] = {
    "a container whose class takes other arguments": lambda: convert({"x": _Unbuildable("a", "r")}, "numpy"),
    "a framework's own call fails": _with_framework(lambda: convert({"x": F4}, "mylib"), from_numpy=_failing),
    "a framework's own call fails, for an array of its own": _with_framework(
        lambda: convert({"x": _Mine()}, "numpy"), to_numpy=_failing, arrays=(f"{__name__}:_Mine",)
    ),
    "a library of nobody's makes another shape": lambda: convert(
        {"x": F4}, _stranger(asarray=lambda x: np.ravel(x))
    ),
}

SHARING: dict[str, Call] = {
    "read-only memory, to torch": lambda: convert({"x": _read_only(F4.copy())}, "torch", copy=False),
    "negative strides, to torch": lambda: convert({"x": F4[::-1]}, "torch", copy=False),
    "other byte order, to torch": lambda: convert({"x": F4.astype(">f4")}, "torch", copy=False),
    "unaligned elements, to torch": lambda: convert(
        {"x": np.frombuffer(bytearray(17), "u1")[1:].view("f4")}, "torch", copy=False
    ),
    "another device, to torch": lambda: convert({"x": F4}, "torch", "meta", copy=False),
    "conjugate tensor, to NumPy": lambda: (
        convert({"x": torch.ones(2) + 0j}, "numpy", copy=False)
        and convert({"x": (torch.ones(2) + 1j).conj()}, "numpy", copy=False)
    ),
    "another dtype, torch to torch": lambda: convert(
        {"x": torch.ones(2)}, "torch", copy=False, dtypes={"float32": "float64"}
    ),
    "address no multiple of 64 bytes, to JAX": lambda: convert({"x": at_offset(F4, 4)}, "jax", copy=False),
    "not contiguous, to JAX": lambda: convert({"x": at_offset(F4, 0).T}, "jax", copy=False),
    "a dtype that JAX has not": lambda: convert({"x": np.arange(3)}, "jax", copy=False),
    "sharded over two devices, to NumPy": lambda: convert({"x": _on_two("x")}, "numpy", copy=False),
    "another dtype, JAX to JAX": lambda: convert(
        {"x": jnp.ones(2)}, "jax", copy=False, dtypes={"float32": "float16"}
    ),
    "another dtype, NumPy to NumPy": lambda: convert(
        {"x": F4}, "numpy", copy=False, dtypes={"float32": "float64"}
    ),
    "dask array, to NumPy": lambda: convert({"x": convert(F4, "dask")}, "numpy", copy=False),
    "to dask": lambda: convert({"x": F4}, "dask", copy=False),
    "another dtype, dask to dask": lambda: convert(
        {"x": convert(F4, "dask")}, "dask", copy=False, dtypes={"float32": "float64"}
    ),
    "sparse array, to NumPy": lambda: convert({"x": convert(F4, "sparse")}, "numpy", copy=False),
    "another dtype, sparse to itself": lambda: convert(
        {"x": convert(F4, "sparse")}, "sparse", copy=False, dtypes={"float32": "float64"}
    ),
    "to sparse": lambda: convert({"x": F4}, "sparse", copy=False),
    "array-api-strict on another device, to NumPy": lambda: convert(
        {"x": convert(F4, "array_api_strict", "device1")}, "numpy", copy=False
    ),
    "to another device of array-api-strict": lambda: convert(
        {"x": F4}, "array_api_strict", "device1", copy=False
    ),
    "another dtype, array-api-strict to itself": lambda: convert(
        {"x": convert(F4, "array_api_strict")}, "array_api_strict", copy=False, dtypes={"float32": "float64"}
    ),
    "bfloat16 of MLX without ml_dtypes": lambda: _without_ml_dtypes(
        {"x": convert(F4, "mlx", dtypes={"float32": "bfloat16"})}, "numpy", copy=False
    ),
    "to MLX": lambda: convert({"x": F4}, "mlx", copy=False),
    "array of nobody's, to NumPy": lambda: convert(
        {"x": INPUTS["array of another library that gives no values"].make()}, "numpy", copy=False
    ),
    "to a library of nobody's that copies": lambda: convert(
        {"x": F4}, _stranger(asarray=_asarray), copy=False
    ),
}


def _as_if_forked() -> Any:
    """What frameworks/test_forked.py does with real processes."""
    with patch("arrayferry._frameworks.jax._forked", True):
        return Converter("jax")


def _abstract_sharding() -> Any:
    mesh = jax.sharding.AbstractMesh((1,), ("env",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("env"))


def _in_fake_mode() -> Any:
    with FakeTensorMode():
        return convert(F4.copy(), "torch")


OPTIONS: dict[str, Call] = {
    'copy="yes"': lambda: Converter("numpy", copy="yes"),  # type: ignore[arg-type]
    'dtypes="float32"': lambda: Converter("numpy", dtypes="float32"),  # type: ignore[arg-type]
    'dtypes={"float64": "float33"}': lambda: Converter("numpy", dtypes={"float64": "float33"}),
    'device="cuda:7" of NumPy': lambda: Converter("numpy", "cuda:7"),
    'device="cuda:99" of torch': lambda: Converter("torch", "cuda:99"),
    'device="tpu:99" of JAX': lambda: Converter("jax", "tpu:99"),
    'device="device9" of array-api-strict': lambda: Converter("array_api_strict", "device9"),
    'device="npu" of MLX': lambda: Converter("mlx", "npu"),
    'device="cuda" of a library of nobody\'s': lambda: Converter(_stranger(asarray=_asarray), "cuda"),
    'device="meta" of torch': lambda: Converter("torch", "meta"),
    "a sharding of JAX that has no devices": lambda: Converter("jax", _abstract_sharding()).device_name,
    "a recorded sharding over more devices than there are": lambda: Converter(
        "jax", {"mesh": {"env": 99}, "spec": ["env"], "devices": ["cpu:98"] * 99, "memory_kind": None}
    ),
    "env_device=object()": lambda: arrayferry.wrap(_single(), "numpy", env_device=object()),
    "torch in FakeTensorMode": _in_fake_mode,
    "JAX in a forked process, where it had started before": _as_if_forked,
}


NAMES: dict[str, Call] = {
    'to="os"': lambda: Converter("os"),
    'to="pytroch"': lambda: Converter("pytroch"),
    "to=3": lambda: Converter(3),  # type: ignore[arg-type]
    "a framework that is not installed": _with_framework(lambda: Converter("mylib"), modules=("mylib",)),
    "bfloat16 without ml_dtypes": lambda: _without_ml_dtypes(
        {"x": F4}, "torch", dtypes={"float32": "bfloat16"}
    ),
    "unpickling a converter to a library that is not imported": lambda: pickle.loads(
        pickle.dumps(Converter(_stranger(asarray=_asarray)))
    ),
}


class _Odd(gym.Env[Any, Any]):
    """Returns what it is told to."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)

    def __init__(self, *result: Any) -> None:
        self.result = result

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(2, "f4"), {}

    def step(self, action: Any) -> Any:
        return self.result


def _step(*result: Any) -> Call:
    return lambda: arrayferry.wrap(_Odd(*result), "numpy").step(0)


def _single() -> Any:
    return gym.make("CartPole-v1")


def _vector() -> Any:
    return gym.vector.SyncVectorEnv([_single])


def _objects(*elements: Any) -> Any:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


def _sanitize_by_variable() -> Any:
    with patch.dict(os.environ, ARRAYFERRY_SANITIZE="on"):
        _watch._from_environment()


ENVIRONMENTS: dict[str, Call] = {
    "wrap(env, num_envs=...) of a Gymnasium environment": lambda: arrayferry.wrap(
        gym.make("CartPole-v1"), "numpy", num_envs=4
    ),
    "wrap(what is no environment)": lambda: arrayferry.wrap(3, "numpy"),  # type: ignore[call-overload]
    "wrap(single environment, dense_final=True)": lambda: arrayferry.wrap(
        _single(), "numpy", dense_final=True
    ),
    "wrap(vector environment, scalars=...)": lambda: arrayferry.wrap(_vector(), "numpy", scalars="target"),
    'wrap(env, spaces="both")': lambda: arrayferry.wrap(_single(), "numpy", spaces="both"),
    'wrap(env, sanitize="yes")': lambda: arrayferry.wrap(_single(), "numpy", sanitize="yes"),
    "ARRAYFERRY_SANITIZE=on": _sanitize_by_variable,
    'check("go left")': lambda: arrayferry.check("go left"),
    "wrappers.NumpyToTorch(vector environment)": lambda: wrappers.NumpyToTorch(_vector()),
    "wrappers.vector.NumpyToTorch(single environment)": lambda: wrappers.vector.NumpyToTorch(_single()),
    "NormalizeObservation around a framework without an array API": lambda: Place(_WITHOUT_ARRAY_API, None),
    "step() returns four values": _step(np.zeros(2), 1.0, False, {}),
    'wrap(env, dtypes="spaces")': lambda: arrayferry.wrap(_single(), "numpy", dtypes="spaces"),  # type: ignore[call-overload]
    'wrap(env, reward_dtype="float33")': lambda: arrayferry.wrap(_single(), "numpy", reward_dtype="float33"),
    "a reward that overflows reward_dtype": lambda: arrayferry.wrap(
        _Odd(np.zeros(2), 1e300, False, False, {}), "numpy", reward_dtype="float32"
    ).step(0),
    "an observation that its space's dtype does not hold": lambda: arrayferry.wrap(
        _Odd(np.array([0.5, 1e300]), 1.0, False, False, {}), "numpy", dtypes="space"
    ).step(0),
    "a final observation of another shape, dense_final=True": lambda: with_dense_final(
        _vector(), (np.zeros((1, 4)), [1.0], [True], [False], {"final_obs": _objects(np.zeros(3, "f4"))})
    ),
    "wrappers.pettingzoo.ParallelArrayConversion(AEC environment)": lambda: ParallelArrayConversion(
        aec(), "numpy", "numpy"
    ),
    "wrappers.pettingzoo.AECArrayConversion(parallel environment)": lambda: AECArrayConversion(
        Zoo(), "numpy", "numpy"
    ),
    "terminated is a text": _step(np.zeros(2), 1.0, "no", False, {}),
    "terminated is an array of two": _step(np.zeros(2), 1.0, np.array([True, False]), False, {}),
}

SECTIONS: dict[str, dict[str, Call]] = {
    "Values": VALUES,
    "Structures and frameworks": STRUCTURES,
    "`copy=False`": SHARING,
    "Devices and options": OPTIONS,
    "Names": NAMES,
    "Environments": ENVIRONMENTS,
}


def refused(call: Call) -> FerryError:
    """The error that a call gives."""
    try:
        call()
    except FerryError as error:
        return error
    raise AssertionError("it was not refused")
