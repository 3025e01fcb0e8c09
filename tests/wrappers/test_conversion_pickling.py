"""A wrapper that was pickled, cloudpickled or deep-copied is whole: checked by using the copy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from arrayferry import Source, Target, wrappers
from helpers.compare import assert_same_form
from helpers.envs import Recorder
from helpers.frameworks import FakeFramework

WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "oldest_pickle": lambda env: pickle.loads(pickle.dumps(env, 2)),
    "cloudpickle": lambda env: cloudpickle.loads(cloudpickle.dumps(env)),
    "deepcopy": copy.deepcopy,
}

every_way = pytest.mark.parametrize("way", WAYS)
# SyncVectorEnv holds the functions that make its environments, which pickle does not take.
every_way_for_vectors = pytest.mark.parametrize("way", ["cloudpickle", "deepcopy"])


def run_on(env: Any, actions: list[Any]) -> list[Any]:
    """What happens from here on, with resets where an episode ends."""
    results: list[Any] = []
    for action in actions:
        results.append(env.step(action))
        if not isinstance(env, gym.vector.VectorEnv) and (results[-1][2] or results[-1][3]):
            results.append(env.reset())
    return results


def assert_goes_on_alike(env: Any, twin: Any, target: str, steps: int = 100) -> None:
    random = np.random.default_rng(1)
    shape = (env.num_envs,) if isinstance(env, gym.vector.VectorEnv) else ()
    actions = [arrayferry.convert(random.integers(0, 2, shape), target) for _ in range(steps)]
    for number, (mine, theirs) in enumerate(zip(run_on(env, actions), run_on(twin, actions), strict=True)):
        assert_same_form(theirs, mine, f"result {number}")


@every_way
def test_the_same_100_steps(way: str, target: str) -> None:
    env = arrayferry.wrap(gym.make("CartPole-v1"), target)
    env.reset(seed=1)
    for _ in range(3):
        env.step(arrayferry.convert(np.array(1), target))
    # dask makes a graph of every array: it need not be asked a hundred times.
    assert_goes_on_alike(env, WAYS[way](env), target, steps=20 if target == "dask" else 100)


@pytest.mark.needs("gymnasium>=1.4")  # an older one's have a generator
@every_way_for_vectors
def test_the_same_100_steps_of_a_vector_environment(way: str, target: str) -> None:
    env = arrayferry.wrap(gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"), target)
    env.reset(seed=1)
    assert_goes_on_alike(env, WAYS[way](env), target, steps=10 if target == "dask" else 50)


@every_way
@pytest.mark.parametrize(
    "options", [{}, {"spaces": "target", "scalars": "target", "dtypes": {"float32": "float64"}}], ids=str
)
def test_nothing_is_lost(way: str, options: dict[str, Any], target: str) -> None:
    env = arrayferry.wrap(gym.make("CartPole-v1"), target, **options)
    env.reset(seed=1)
    assert env.spec is not None  # it is cached from here on
    twin = WAYS[way](env)
    assert type(twin) is type(env)
    assert vars(twin).keys() == vars(env).keys()
    assert twin.observation_space == env.observation_space
    assert twin.action_space == env.action_space
    assert type(twin.action_space.sample()) is type(env.action_space.sample())
    assert twin.metadata == env.metadata
    assert twin.spec == env.spec
    assert twin.render_mode == env.render_mode
    assert twin._saved_kwargs == env._saved_kwargs
    assert_same_form(twin.reset(seed=5), env.reset(seed=5))


@every_way
def test_nothing_is_lost_before_the_first_reset(way: str, target: str) -> None:
    env = arrayferry.wrap(gym.make("CartPole-v1"), target, spaces="target")
    twin = WAYS[way](env)
    assert vars(twin).keys() == vars(env).keys()
    assert_same_form(twin.reset(seed=2), env.reset(seed=2))


@pytest.mark.needs("gymnasium>=1.4")  # an older one's have a generator
@every_way_for_vectors
def test_a_vector_wrapper_keeps_all_its_spaces(way: str, target: str) -> None:
    for spaces in ("env", "target"):
        bare = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
        env = arrayferry.wrap(bare, target, spaces=spaces, dense_final=True)
        twin = WAYS[way](env)
        assert vars(twin).keys() == vars(env).keys()
        for name in (
            "action_space",
            "observation_space",
            "single_action_space",
            "single_observation_space",
            "metadata",
            "spec",
        ):
            assert getattr(twin, name) == getattr(env, name), name
        assert type(twin.action_space.sample()) is type(env.action_space.sample())
        assert twin.num_envs == 2


@every_way
def test_what_was_learned_is_kept(way: str, target: str) -> None:
    """A copy of a wrapper around a JAX environment sends JAX actions, without another reset."""
    jnp = pytest.importorskip("jax.numpy")
    env = arrayferry.wrap(Recorder(xp=jnp), target)
    env.reset()
    twin = WAYS[way](env)
    twin.step(arrayferry.convert(np.ones(3, np.float32), target))
    assert isinstance(twin.unwrapped.actions[0], jnp.ndarray)


@every_way
def test_a_torch_device_survives(way: str) -> None:
    torch = pytest.importorskip("torch")
    env = WAYS[way](wrappers.NumpyToTorch(gym.make("CartPole-v1"), torch.device("cpu")))
    assert env.reset(seed=1)[0].device.type == "cpu"
    assert torch.device(env.device).type == "cpu"
    env = WAYS[way](arrayferry.wrap(gym.make("CartPole-v1"), "torch", "cpu"))
    assert env.reset(seed=1)[0].device.type == "cpu"


@every_way
@pytest.mark.parametrize(
    "make",
    [
        lambda env, device: arrayferry.wrap(env, "jax", device),
        lambda env, device: wrappers.ArrayConversion(env, np, "jax", target_device=device),
        lambda env, device: wrappers.NumpyToJax(env, device),
        lambda env, device: wrappers.NumpyToJax(env, device, spaces="target"),
    ],
    ids=["wrap", "ArrayConversion", "pair", "pair_with_spaces"],
)
def test_a_jax_device_survives_by_name(way: str, make: Callable[[Any, Any], Any]) -> None:
    """The device itself cannot be pickled."""
    jax = pytest.importorskip("jax")
    cpu = jax.devices("cpu")[0]
    env = WAYS[way](make(gym.make("CartPole-v1"), cpu))
    assert env.reset(seed=1)[0].devices() == {cpu}


def test_the_second_of_two_jax_devices_survives(run_python: Any) -> None:
    pytest.importorskip("jax")
    code = """
import copy, pickle, cloudpickle, gymnasium as gym, jax, numpy as np
import arrayferry
from arrayferry import wrappers
second = jax.devices("cpu")[1]
first = arrayferry.wrap(gym.make("CartPole-v1"), "jax", second, spaces="target")
for env in (first, wrappers.NumpyToJax(gym.make("CartPole-v1"), "cpu:1")):
    env.reset(seed=1)
    copies = pickle.loads(pickle.dumps(env)), cloudpickle.loads(cloudpickle.dumps(env)), copy.deepcopy(env)
    for twin in (env, *copies, gym.make(env.spec)):
        obs, info = twin.reset(seed=1)
        assert obs.devices() == {second}, obs.devices()
        obs, *_ = twin.step(jax.device_put(1, second))
        assert obs.devices() == {second}, obs.devices()
    if env is first:
        assert all(twin.action_space.sample().devices() == {second} for twin in (env, *copies))
    print("whole")
"""
    assert run_python(code, XLA_FLAGS="--xla_force_host_platform_device_count=2").split() == [
        "whole",
        "whole",
    ]


@every_way
def test_nested_wrappers(way: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("jax")
    env = arrayferry.wrap(arrayferry.wrap(gym.make("CartPole-v1"), "jax"), "torch")
    env.reset(seed=1)
    twin = WAYS[way](env)
    assert isinstance(twin.step(torch.tensor(0))[0], torch.Tensor)
    env.step(torch.tensor(0))
    assert_goes_on_alike(env, twin, "torch", steps=20)
    assert twin.spec == env.spec


def test_a_copy_and_its_original_live_apart(target: str) -> None:
    env = arrayferry.wrap(gym.make("CartPole-v1"), target)
    env.reset(seed=1)
    twin = copy.deepcopy(env)
    want = np.array(env.unwrapped.state)
    for _ in range(3):
        twin.step(arrayferry.convert(np.array(1), target))
    assert np.array_equal(np.array(env.unwrapped.state), want)
    assert not np.array_equal(np.array(twin.unwrapped.state), want)


def test_a_wrapper_to_an_unregistered_library_unpickles_in_a_new_process(run_python, tmp_path):
    (tmp_path / "stranger.py").write_text("import numpy\nasarray = numpy.asarray\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import pickle, gymnasium as gym, arrayferry, stranger\n"
        "print(pickle.dumps(arrayferry.wrap(gym.make('CartPole-v1'), stranger)).hex())\n"
    )
    pickled = bytes.fromhex(run_python(code))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import pickle, stranger  # which the pickle alone does not get imported: see test_security.py\n"
        f"print(type(pickle.loads({pickled!r}).reset(seed=1)[0]).__name__)\n"
    )
    assert run_python(code) == "ndarray\n"


@pytest.mark.parametrize("options", [{}, {"spaces": "target"}, {"sanitize": True}, {"env_xp": "same"}])
def test_framework_that_is_not_registered_is_copied_but_not_pickled(options: dict[str, Any]) -> None:
    lists = FakeFramework(
        "lists",
        modules=("builtins",),
        source=Source(read=np.array),
        target=Target(
            take=lambda array: array.tolist(),
            dtypes=lambda: frozenset({"int64", "float64", "float32", "bool"}),
        ),
    )
    options = {**options, "env_xp": lists} if "env_xp" in options else options
    env = arrayferry.wrap(Recorder(), lists, **options)
    first, _ = env.reset(seed=1)
    second, _ = copy.deepcopy(env).reset(seed=1)
    assert second == first
    assert type(second) is list
    with pytest.raises(arrayferry.FerryError, match="'lists' is not an array framework"):
        pickle.loads(pickle.dumps(env))
