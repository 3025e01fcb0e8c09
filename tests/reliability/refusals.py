"""Every refusal of the library: what one does, and the error it gives. A page of the docs is made of it."""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import arrayferry
from arrayferry import Converter, FerryError, Source, Target, convert, wrappers
from arrayferry._boundary.autoreset import step_with_autoreset
from arrayferry._boundary.observations import stack_final
from arrayferry._boundary.seeds import process_seed
from arrayferry._core import registry, type_cache
from arrayferry._in_jit.declared import Declared, like_example, like_space
from arrayferry._in_jit.host import Host
from arrayferry._in_jit.turns import STATE
from arrayferry.envs import (
    EnvAdapter,
    Interface,
    adapters,
    as_gymnasium,
    as_parallel,
    brax,
    dm_env,
    func_env,
    jumanji,
    register_environment,
)
from arrayferry.envs._spaces import gymnasium_space, members_of, space_of
from arrayferry.envs.simulators import families
from arrayferry.envs.simulators.batches import five_values, two_values
from arrayferry.learners import sb3_vec_env, tensordict_env
from arrayferry.spaces.casting import cast_to_space
from arrayferry.testing import at_offset
from arrayferry.wrappers import watch
from arrayferry.wrappers._compute.array_context import ArrayContext
from arrayferry.wrappers.pettingzoo import AECArrayConversion, ParallelArrayConversion
from envs.line_walk import Walk, interface
from envs.simulators import stand_ins
from helpers.frameworks import TARGET, FakeFramework
from helpers.pettingzoo_envs import ThreeAgents, aec
from reliability.inputs import INPUTS, REFUSALS, _on_two, _read_only

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
    """Makes its values when it is asked."""

    def __init__(self, path: str, mode: str) -> None:
        self.path = path

    def __getitem__(self, key: str) -> Any:
        return F4

    def __iter__(self) -> Any:
        return iter("x")

    def __len__(self) -> int:
        return 1


@dataclass
class _Failure(ValueError):
    x: Any


_BOX = gym.spaces.Box(-1, 1, (2, 3))


class _Mine:
    """An array of a framework that fails."""

    shape, dtype = (2,), np.dtype("float32")


def _failing(*_: Any) -> Any:
    raise RuntimeError("out of memory")


_WITHOUT_ARRAY_API = FakeFramework(
    "bytes",
    modules=("builtins",),
    target=Target(take=lambda array: array.tobytes(), dtypes=lambda: frozenset({"uint8"})),
)


def _with_framework(call: Call, **changes: Any) -> Call:
    """Call with a framework of its own in the registry: NumPy without its shortcuts, and with changes."""

    def registered() -> None:
        arrayferry.register_framework(FakeFramework("mylib", **changes))
        try:
            call()
        finally:
            del registry._registry["mylib"]
            type_cache.clear_type_caches()

    return registered


def _with_a_plugin_that_is_called_torch() -> Any:
    plugin = type(
        "Plugin", (), {"name": "mylib", "value": "mylib:FRAMEWORK", "load": lambda _: FakeFramework("torch")}
    )()
    with patch.object(registry, "_plugins", lambda: (plugin,)):
        return Converter("mylib")


def _asarray(x: Any, copy: bool | None = None) -> Any:
    return np.array(x, copy=True)


def _stranger(**contents: Any) -> ModuleType:
    module = ModuleType("stranger")
    vars(module).update(contents)
    return module


def _without_ml_dtypes(*arguments: Any, **options: Any) -> Any:
    with patch.dict(sys.modules, {"ml_dtypes": None}):
        return convert(*arguments, **options)


def _registered_twice() -> None:
    cls = type("Pair", (), {})
    arrayferry.register_leaf(cls, lambda value, converter: value)
    arrayferry.register_leaf(cls, lambda value, converter: value)


STRUCTURES: dict[str, Call] = {
    "a mapping that computes its values": lambda: convert({"x": _Unbuildable("a", "r")}, "numpy"),
    "a mappingproxy": lambda: convert({"x": MappingProxyType({"a": F4})}, "numpy"),
    "a struct sequence": lambda: convert({"x": time.struct_time(range(9))}, "numpy"),
    "a dataclass that is an exception": lambda: convert({"x": _Failure(F4)}, "numpy"),
    "a structured array with an object that cannot be copied": lambda: convert(
        {"x": np.array([(1, lambda: 0)], "i4,O")}, "numpy"
    ),
    "a mapping whose items are not in one place, to be cast": lambda: cast_to_space(
        gym.spaces.Dict(a=_BOX, b=_BOX), ChainMap({"a": F4}, {"b": F4})
    ),
    "a framework's own call fails": _with_framework(
        lambda: convert({"x": F4}, "mylib"), target=TARGET._replace(take=_failing)
    ),
    "a framework's own call fails, for an array of its own": _with_framework(
        lambda: convert({"x": _Mine()}, "numpy"),
        source=Source(read=_failing),
        arrays=(f"{__name__}:_Mine",),
    ),
    "a library of nobody's makes another shape": lambda: convert(
        {"x": F4}, _stranger(asarray=lambda x: np.ravel(x))
    ),
    "a value that does not fit, from sparse to itself": lambda: convert(
        {"x": convert(np.array([1e300]), "sparse")}, "sparse", dtypes={"float64": "bfloat16"}
    ),
    "register_container(no class, ...)": lambda: arrayferry.register_container("Pair", vars, vars),
    'register_framework(name="torch")': lambda: arrayferry.register_framework(FakeFramework("torch")),
    'register_framework(modules="mylib")': lambda: arrayferry.register_framework(
        FakeFramework(modules="mylib")
    ),
    "an entry point whose framework is called torch": _with_a_plugin_that_is_called_torch,
    "register_leaf(Walk, no function)": lambda: arrayferry.register_leaf(Walk, None),
    "register_leaf(what is registered, ...)": _registered_twice,
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
    "a dtype that NumPy has not": lambda: convert({"x": INPUTS["bits8 tensor"].make()}, "numpy", copy=False),
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


def _wrap_on_two(environments: int, *axes: str | None) -> Any:
    vector = gym.vector.SyncVectorEnv([_single] * environments)
    return arrayferry.wrap(vector, "jax", _on_two("x").sharding.update(spec=axes))


def _lists() -> gym.Env[Any, Any]:
    env = _single()
    env.observation_space = gym.spaces.Sequence(gym.spaces.Box(-1, 1, (2,)))
    return env


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
    "three environments on two devices": lambda: _wrap_on_two(3, "x"),
    "a sharding of another axis than that of the environments": lambda: _wrap_on_two(4, None, "x"),
    "observations of any length on two devices": lambda: arrayferry.wrap(
        gym.vector.SyncVectorEnv([_lists] * 2), "jax", _on_two("x").sharding
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


class _WithText(_Odd):
    observation_space = gym.spaces.Dict(word=gym.spaces.Text(5))


class GymnasiumEnvPoolMixin(gym.vector.VectorEnv[Any, Any, Any]):
    """The class from which EnvPool's environments derive."""


GymnasiumEnvPoolMixin.__module__ = "envpool.python"


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


def _tensordict_on_a_mesh() -> Any:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        tensordict_env(_vector(), (mesh, [torch.distributed.tensor.Shard(0)]))
    finally:
        torch.distributed.destroy_process_group()


def _without_tensordict() -> Any:
    with patch.dict(sys.modules, {"tensordict": None}):
        sys.modules.pop("arrayferry.learners._tensordict", None)
        tensordict_env(_single())


def _sanitize_by_variable() -> Any:
    with patch.dict(os.environ, ARRAYFERRY_SANITIZE="on"):
        watch._from_environment()


ENVIRONMENTS: dict[str, Call] = {
    "wrap(wrapper for single environments around a vector environment)": lambda: arrayferry.wrap(
        gym.Wrapper(type("GymnasiumEnvPoolMixin", (gym.Env,), {"__module__": "envpool.python"})()),
        "numpy",
    ),
    "set_state(what is no state of these environments)": lambda: _walk(2, "SameStep").set_state(((), ())),
    "wrap(env, autoreset_mode=...) of a Gymnasium environment": lambda: arrayferry.wrap(
        gym.make("CartPole-v1"), "numpy", autoreset_mode="SameStep"
    ),
    "wrap(env, num_envs=...) of a Gymnasium environment": lambda: arrayferry.wrap(
        gym.make("CartPole-v1"), "numpy", num_envs=4
    ),
    "wrap(what is no environment)": lambda: arrayferry.wrap(3, "numpy"),  # type: ignore[call-overload]
    "wrap(single environment, dense_final=True)": lambda: arrayferry.wrap(
        _single(), "numpy", dense_final=True
    ),
    "wrap(vector environment, scalars=...)": lambda: arrayferry.wrap(_vector(), "numpy", scalars="target"),
    "learners.tensordict_env without tensordict": _without_tensordict,
    "learners.tensordict_env with a device mesh": _tensordict_on_a_mesh,
    "learners.tensordict_env, many agents": lambda: tensordict_env(ThreeAgents()),  # type: ignore[arg-type]
    "learners.tensordict_env, a key that is no text": lambda: tensordict_env(
        _Odd({1: np.zeros(2)}, 1.0, False, False, {})
    ).step(0),
    'wrap(env, spaces="both")': lambda: arrayferry.wrap(_single(), "numpy", spaces="both"),
    'wrap(env, sanitize="yes")': lambda: arrayferry.wrap(_single(), "numpy", sanitize="yes"),
    "ARRAYFERRY_SANITIZE=on": _sanitize_by_variable,
    'check("go left")': lambda: arrayferry.check("go left"),
    "check(env, steps=0)": lambda: arrayferry.check(_single(), steps=0),
    "wrappers.NumpyToTorch(vector environment)": lambda: wrappers.NumpyToTorch(_vector()),
    "wrappers.vector.NumpyToTorch(single environment)": lambda: wrappers.vector.NumpyToTorch(_single()),
    "NormalizeObservation with a framework that has no array API": lambda: ArrayContext(
        _WITHOUT_ARRAY_API, None
    ),
    "step() returns four values": _step(np.zeros(2), 1.0, False, {}),
    'wrap(env, dtypes="spaces")': lambda: arrayferry.wrap(_single(), "numpy", dtypes="spaces"),  # type: ignore[call-overload]
    'wrap(env, reward_dtype="float33")': lambda: arrayferry.wrap(_single(), "numpy", reward_dtype="float33"),
    "a reward that overflows reward_dtype": lambda: arrayferry.wrap(
        _Odd(np.zeros(2), 1e300, False, False, {}), "numpy", reward_dtype="float32"
    ).step(0),
    "an observation that its space's dtype does not hold": lambda: arrayferry.wrap(
        _Odd(np.array([0.5, 1e300]), 1.0, False, False, {}), "numpy", dtypes="space"
    ).step(0),
    "a step after the end of an episode, DISABLED": lambda: step_with_autoreset(
        tuple, tuple, gym.vector.AutoresetMode.DISABLED, is_over=True
    ),
    "process_seed(7, 4, process_index=2, process_count=2)": lambda: process_seed(
        7, 4, process_index=2, process_count=2
    ),
    "a final observation of another shape, dense_final=True": lambda: stack_final(
        _vector(), (np.zeros((1, 4)), [1.0], [True], [False], {"final_obs": _objects(np.zeros(3, "f4"))})
    ),
    "a masked final observation, dense_final=True": lambda: stack_final(
        _vector(), (np.zeros((1, 4)), [1.0], [True], [False], {"final_obs": [np.ma.masked_all(4, "f4")]})
    ),
    "wrappers.pettingzoo.ParallelArrayConversion(AEC environment)": lambda: ParallelArrayConversion(
        aec(), "numpy", "numpy"
    ),
    "wrappers.pettingzoo.AECArrayConversion(parallel environment)": lambda: AECArrayConversion(
        ThreeAgents(), "numpy", "numpy"
    ),
    "a reward is a text": _step(np.zeros(2), "1e3", False, False, {}),
    "a reward that a float would round": _step(np.zeros(2), 2**53 + 1, False, False, {}),
    "rewards of a dtype that the target lacks": lambda: arrayferry.wrap(
        _Odd(np.zeros(2), np.ones(2, np.longdouble), False, False, {}), "torch"
    ).step(0),
    "flags that are no bools, copy=False": lambda: arrayferry.wrap(
        _Odd(np.zeros(2, "f4"), 1.0, np.zeros(1, "u1"), False, {}), "numpy", scalars="target", copy=False
    ).step(0),
    "an action of another dtype, copy=False": lambda: arrayferry.wrap(
        gym.make("Pendulum-v1"), "numpy", copy=False
    ).step(np.zeros(1)),
    "an action that is a list of arrays, copy=False": lambda: arrayferry.wrap(
        gym.make("Pendulum-v1"), "numpy", copy=False
    ).step([np.zeros(1, "f4")]),
    "terminated is a text": _step(np.zeros(2), 1.0, "no", False, {}),
    "terminated is an array of two": _step(np.zeros(2), 1.0, np.array([True, False]), False, {}),
}


def _on_host(obs: Any, states: int = 1) -> Call:
    """Take steps that return this observation of two float32, as the callback of compiled code does."""

    def call() -> None:
        env = _Odd(obs, 1.0, False, False, {})
        env.observation_space = gym.spaces.Box(-9, 9, (2,), np.int32 if obs.dtype.kind == "i" else np.float32)
        host = Host(env, {}, False)
        outs = [np.zeros(leaf.shape, leaf.dtype) for leaf in (STATE, *host.values.leaves)]
        for _ in range(states):
            host.step(outs, np.array([host._number, 0, host._turns.calls]), np.array(0))
        host.step(outs, outs[0] - np.uint32([states == 0, 0, 1]), np.array(0))

    return call


def _traced(function: Callable[[Any, Any], Any]) -> Call:
    return lambda: function(*arrayferry.in_jit(gym.make("Pendulum-v1")))


def _in_jit_without_jax() -> Any:
    with patch.dict(sys.modules, jax=None):
        return arrayferry.in_jit(_single())


IN_JIT: dict[str, Call] = {
    "in_jit(env) without JAX": _in_jit_without_jax,
    "in_jit(an environment that observes text)": lambda: arrayferry.in_jit(_WithText()),
    'in_jit(env, info=("lives",)), which has none': lambda: arrayferry.in_jit(
        gym.make("CartPole-v1"), info=("lives",)
    ),
    "in_jit(env, info=...) of a text": lambda: arrayferry.in_jit(_single(), info={"where": "north"}),
    'in_jit(env, info="final_obs") without autoreset': lambda: arrayferry.in_jit(_single(), info="final_obs"),
    "in_jit(vector environment that nobody resets)": lambda: arrayferry.in_jit(_walk(2, "Disabled")),
    "in_jit(vector environment, autoreset=True), which resets in the next step": lambda: arrayferry.in_jit(
        gym.make_vec("CartPole-v1", 2, "sync"), autoreset=True
    ),
    "in_jit(an environment of EnvPool)": lambda: arrayferry.in_jit(GymnasiumEnvPoolMixin()),
    "in_jit(an environment of many agents)": lambda: arrayferry.in_jit(ThreeAgents()),  # type: ignore[arg-type]
    "jax.vmap(reset)": _traced(lambda reset, step: jax.vmap(reset)(jax.random.split(jax.random.key(0)))),
    "jax.shard_map of reset": _traced(
        lambda reset, step: jax.shard_map(
            lambda key: reset(key)[1],
            mesh=jax.make_mesh((1,), ("x",)),
            in_specs=jax.sharding.PartitionSpec(),
            out_specs=jax.sharding.PartitionSpec(),
            check_vma=False,
        )(jax.random.key(0))
    ),
    "reset(0), which is no key": _traced(lambda reset, step: reset(0)),
    "an action of another shape than its space's": _traced(
        lambda reset, step: step(jnp.zeros(3, "uint32"), jnp.zeros(4))
    ),
    "jax.grad of a step": _traced(
        lambda reset, step: jax.grad(lambda x: step(jnp.zeros(3, "uint32"), x)[1][1])(jnp.zeros(1))
    ),
    "a state that is used twice": _on_host(np.zeros(2, "float32")),
    "a state of another environment": _on_host(np.zeros(2, "float32"), 0),
    "an observation of another shape than its space's": _on_host(np.zeros(3, "float32")),
    "an observation that lacks a part of its space": lambda: list(
        Declared("obs", like_space("obs", gym.spaces.Dict(a=gym.spaces.Discrete(2)))).flatten({})
    ),
    "an info that lacks a part of its example": lambda: list(
        Declared("info", like_example("info", {"episode": {"r": 0.0}}), is_whole=False).flatten(
            {"episode": {"l": 3}}
        )
    ),
    "an int64 that does not fit JAX's int32": _on_host(np.array([0, 2**40])),
}


def _walk(num_envs: int | None = None, autoreset_mode: str | None = None, **options: bool) -> Any:
    """An environment written in JAX, known only as long as it takes to make it."""
    with patch.dict(adapters._adapters):
        register_environment(Walk, interface, replace=True)
        return as_gymnasium(Walk(**options), num_envs, autoreset_mode=autoreset_mode)


def _begun() -> Any:
    env = _walk()
    env.reset(seed=1)
    return env


def _with_another_x64() -> Any:
    env = _begun()
    with jax.enable_x64(True):
        return env.step(1)


def _walk_with(make: Callable[[Any], Any] = as_gymnasium, **changes: Any) -> Any:
    """The same environment with other fields in its interface."""
    with patch.dict(adapters._adapters), patch("arrayferry.envs.opening.find_spec", lambda name: name):
        changed = lambda env, params: replace(interface(env, params), **changes)  # noqa: E731
        register_environment(Walk, changed, replace=True)
        return make(Walk())


def _with_another_shape() -> Any:
    def reset(key: Any) -> Any:
        state, obs, info = interface(Walk(), None).reset(key)
        return state, {**obs, "noise": obs["noise"][:1]}, info

    return _walk_with(reset=reset)


def _walk_with_agents() -> Any:
    with patch.dict(adapters._adapters), patch("arrayferry.envs.opening.find_spec", lambda name: name):
        register_environment(Walk, interface, replace=True)
        return as_parallel(Walk())


def _without_shimmy() -> Any:
    with patch.dict(sys.modules, shimmy=None):
        return dm_env.open_with_shimmy(None, object(), None, None, None)


OTHER_INTERFACES: dict[str, Call] = {
    "as_gymnasium(what is not known)": lambda: as_gymnasium(object()),
    "as_gymnasium(Gymnasium environment)": lambda: as_gymnasium(_single()),
    "as_gymnasium(environment of many agents)": lambda: _walk_with(agents=("a", "b")),
    "as_gymnasium(environment with actions of text)": lambda: members_of(gym.spaces.Text(5)),
    "as_gymnasium(environment that observes complex numbers)": lambda: space_of(np.zeros(2, complex)),
    "as_gymnasium(env, 0)": lambda: _walk(0),
    'as_gymnasium(env, 2, autoreset_mode="never")': lambda: _walk(2, "never"),
    "a state of another structure after a step": lambda: _walk(changing=True),
    "an observation of another shape after a step": _with_another_shape,
    "reset(seed=...) with 2 seeds for 3 environments": lambda: _walk(3).reset(seed=[1, 2]),
    "a reset_mask of the wrong length": lambda: _walk(3).reset(
        seed=1, options={"reset_mask": np.array([True])}
    ),
    "an environment in JAX that was made with another jax_enable_x64": _with_another_x64,
    "an environment in JAX that is reset in a function that JAX traces": lambda: jax.jit(_begun().reset)(),
    "an environment in JAX that is stepped in a function that JAX traces": lambda: jax.jit(_begun().step)(1),
    "reset(seed=...) with a negative seed": lambda: _walk(2).reset(seed=[1, -1]),
    "register_environment(no class, ...)": lambda: register_environment("Walk", interface),
    "register_environment(Env, no function)": lambda: register_environment(Walk, None),
    "register_environment(what is registered, ...)": lambda: register_environment(
        "gymnax:Environment", print
    ),
    "Interface(reset=None, ...)": lambda: Interface(None, print, None, gym.spaces.Discrete(2)),
    "an environment in JAX that observes text": lambda: _walk_with(
        reset=lambda key: (0, {"name": "Ada"}, {})
    ),
    "an environment in JAX that ends for some": lambda: _walk_with(
        reset=lambda key: (0, 0.0, {}), step=lambda *_: (0, 0.0, 1.0, {"a": True, "b": False}, False, {})
    ),
    "as_parallel(environment of one agent)": _walk_with_agents,
    "as_parallel(environment whose observations are not by agent)": lambda: _walk_with(
        as_parallel, agents=("a", "b")
    ),
    "a space of gymnax that is not known": lambda: gymnasium_space(object()),
    "a Brax environment that randomizes its models": lambda: brax.interface(
        type("DomainRandomizationVmapWrapper", (), {"__module__": "brax.envs"})(), None
    ),
    "render() of a Jumanji environment whose viewer shows a window": lambda: jumanji._drawn(
        SimpleNamespace(render=lambda state: None, unwrapped=None), None
    ),
    'register_environment(Env, EnvAdapter("vector", open="function"))': lambda: EnvAdapter(
        "vector", open="function"
    ),
    "register_environment(Env, EnvAdapter(None))": lambda: EnvAdapter(None),
    "register_environment(Env, EnvAdapter(..., calls=...))": lambda: EnvAdapter(
        "vector", calls={"send": ("actions", None)}
    ),
    'as_gymnasium(env, autoreset_mode="SameStep") of a single environment': lambda: _walk(
        None, autoreset_mode="SameStep"
    ),
    'as_gymnasium(dm_env environment, render_mode="human")': lambda: as_gymnasium(
        type("Environment", (), {"__module__": "dm_env"})(), render_mode="human"
    ),
    "wrap(FunctionalJaxVectorEnv, num_envs=...)": lambda: func_env.open_fused(
        type("FunctionalJaxVectorEnv", (), {"unwrapped": print})(), None, 4, None
    ),
    "wrap(dm_env environment, num_envs=...)": lambda: dm_env.open_with_shimmy(None, object(), None, 4, None),
    "wrap(dm_env environment) without Shimmy": _without_shimmy,
}


def _open(kind: str, limits: Any = (3, 4), **options: Any) -> Any:
    return as_gymnasium(getattr(stand_ins, kind)([*limits]), **options)


def _step(kind: str) -> Any:
    envs = _open(kind)
    envs.reset()
    return envs.step(torch.zeros(2, 2))


def _actionless() -> Any:
    simulator = SimpleNamespace(num_envs=2, is_vector_env=True, step=print, reset=print)
    return as_gymnasium(simulator, autoreset_mode="SameStep")


SIMULATORS: dict[str, Call] = {
    "wrap(simulator of an unknown class)": lambda: _open("Unknown"),
    "wrap(simulator, num_envs=...)": lambda: _open("DirectRLEnv", num_envs=2),
    "wrap(simulator, autoreset_mode=...) in a mode that it does not have": lambda: _open(
        "Go2Env", autoreset_mode="Disabled"
    ),
    "as_gymnasium(simulator, final_obs=True) without any": lambda: _open("Go2Env", final_obs=True),
    "wrap(ManiSkill environment that is rebuilt)": lambda: as_gymnasium(stand_ins.BaseEnv([3, 4], 1)),
    "wrap(vector wrapper around a simulator)": lambda: as_gymnasium(
        gym.vector.VectorWrapper(stand_ins.ManiSkillVectorEnv(stand_ins.BaseEnv([3, 4])))
    ),
    "wrap(simulator without an action space)": _actionless,
    "wrap(VecEnv without a reset)": lambda: families.vec_env(SimpleNamespace(), None, None),
    "a simulator whose reset returns something else": lambda: two_values("Sim", (0, 1, 2), 2),
    "a simulator whose observation has other rows": lambda: two_values("Sim", np.zeros((3, 4)), 2),
    "a simulator whose step returns something else": lambda: five_values("Sim", (0, 1), 2),
    "a simulator whose step returns five other values": lambda: _step("LeggedEnv"),
    "reset(seed=[...]) of a simulator with one seed": lambda: _open("DirectRLEnv").reset(seed=[1, 2]),
    "reset(options=...) of a simulator without options": lambda: _open("Go2Env").reset(options={"at": 1}),
    "a reset_mask for a simulator that resets as a whole": lambda: [
        envs := _open("DirectRLEnv"),
        envs.reset(),
        envs.reset(options={"reset_mask": np.array([True, False])}),
    ],
    "sb3_vec_env(simulator with actions of any size)": lambda: sb3_vec_env(_open("ManagerBasedRlEnv")),
    "sb3_vec_env(simulator without final observations)": lambda: sb3_vec_env(_open("DirectRLEnv")),
}

SECTIONS: dict[str, dict[str, Call]] = {
    "Values": VALUES,
    "Structures and frameworks": STRUCTURES,
    "`copy=False`": SHARING,
    "Devices and options": OPTIONS,
    "Names": NAMES,
    "Environments": ENVIRONMENTS,
    "Inside `jax.jit`, where the last six come as a `JaxRuntimeError` with this message": IN_JIT,
    "Environments of other interfaces": OTHER_INTERFACES,
    "Batched simulators": SIMULATORS,
}


def refused(call: Call) -> FerryError:
    """The error that a call gives."""
    try:
        call()
    except FerryError as error:
        return error
    raise AssertionError("it was not refused")
