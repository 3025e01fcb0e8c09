"""Every wrapper of Gymnasium's gives the agent its own arrays, inside and outside of a conversion."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry import wrappers as ours
from helpers.envs import Counter

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # NumPy's, of tensors

IMAGE = {
    "show": lambda count: np.full((4, 4, 3), count, np.uint8),
    "observation_space": spaces.Box(0, 255, (4, 4, 3), np.uint8),
}
SINGLE: dict[str, Callable[[Any], Any]] = {
    "DelayObservation": lambda env: ours.DelayObservation(env, 2),
    "MaxAndSkipObservation": lambda env: ours.MaxAndSkipObservation(env, 2),
    "GrayscaleObservation": lambda env: ours.GrayscaleObservation(env),
    "ReshapeObservation": lambda env: ours.ReshapeObservation(env, (48,)),
    "DiscretizeObservation": lambda env: ours.DiscretizeObservation(env, 2),
}
VECTOR: dict[str, Callable[[Any], Any]] = {
    "GrayscaleObservation": lambda envs: ours.vector.GrayscaleObservation(envs),
    "ReshapeObservation": lambda envs: ours.vector.ReshapeObservation(envs, (48,)),
    "VectorizeTransformObservation": lambda envs: ours.vector.VectorizeTransformObservation(
        envs, gym.wrappers.ReshapeObservation, shape=(48,)
    ),
}
PASSING: dict[str, Callable[[Any], Any]] = {
    "TimeLimit": lambda env: ours.TimeLimit(env, 5),
    "Autoreset": lambda env: ours.Autoreset(env),
    "StickyAction": lambda env: ours.StickyAction(env, 0.5),
    "TransformReward": lambda env: ours.TransformReward(env, lambda reward: reward + 1),
}


def vector_env(mode: Any) -> Any:
    return gym.vector.SyncVectorEnv(
        [lambda: Counter(**IMAGE)] * 2, autoreset_mode=gym.vector.AutoresetMode(mode)
    )


def played(env: Any, actions: Any) -> list[Any]:
    return [env.reset(seed=1)[0], *(env.step(actions)[0] for _ in range(3))]


def assert_torch(got: list[Any], want: list[Any]) -> None:
    for one, other in zip(got, want, strict=True):
        assert isinstance(one, torch.Tensor)
        np.testing.assert_array_equal(one.numpy(), other)


@pytest.mark.parametrize("name", SINGLE)
def test_outside_it_computes_what_it_computes_inside(name: str) -> None:
    if not hasattr(ours, name):
        pytest.skip("not in this version of Gymnasium")
    env = SINGLE[name](arrayferry.wrap(Counter(**IMAGE), "torch"))
    assert_torch(played(env, torch.tensor(1)), played(SINGLE[name](Counter(**IMAGE)), np.int64(1)))


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
@pytest.mark.parametrize("name", VECTOR)
def test_outside_of_a_vector_it_computes_what_it_computes_inside(name: str, mode: Any) -> None:
    envs = VECTOR[name](arrayferry.wrap(vector_env(mode), "torch"))
    want = VECTOR[name](vector_env(mode))
    assert_torch(played(envs, torch.tensor([1, 1])), played(want, np.array([1, 1])))


@pytest.mark.parametrize("name", SINGLE)
def test_inside_it_is_silent_and_the_agent_gets_its_arrays(name: str) -> None:
    if not hasattr(ours, name):
        pytest.skip("not in this version of Gymnasium")
    env = arrayferry.wrap(SINGLE[name](Counter(**IMAGE)), "torch")
    assert isinstance(env.reset(seed=1)[0], torch.Tensor)
    assert isinstance(env.step(torch.tensor(1))[0], torch.Tensor)


@pytest.mark.parametrize("name", SINGLE)
def test_around_numpy_it_is_silent(name: str) -> None:
    if not hasattr(ours, name):
        pytest.skip("not in this version of Gymnasium")
    SINGLE[name](arrayferry.wrap(Counter(**IMAGE), "numpy")).reset(seed=1)


@pytest.mark.parametrize("name", PASSING)
def test_a_wrapper_that_only_passes_arrays_is_silent_and_stays(name: str) -> None:
    env = PASSING[name](arrayferry.wrap(Counter(**IMAGE), "torch"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(env.reset(seed=1)[0], torch.Tensor)
        assert isinstance(env.step(torch.tensor(1))[0], torch.Tensor)


def test_no_wrapper_falls_back_silently() -> None:
    """Every class of `gymnasium.wrappers` is here, or is known to pass what it gets."""
    known = {*SINGLE, *PASSING, "AddRenderObservation", "ResizeObservation", "AtariPreprocessing"}
    known |= {"AddWhiteNoise", "ObstructView", "RenderCollection", "RecordVideo", "HumanRendering"}  # frames
    known |= {"PassiveEnvChecker", "OrderEnforcing", "FilterObservation", "RepeatAction", "StickyAction"}
    known |= {"TransformAction", "DiscretizeAction", "vector", "ArrayConversion"}
    known |= {"JaxToNumpy", "JaxToTorch", "NumpyToTorch"}
    computing = {
        "RecordEpisodeStatistics NormalizeObservation NormalizeReward ClipReward ClipAction RescaleAction",
        "RescaleObservation FlattenObservation FrameStackObservation TransformObservation TransformReward",
        "DtypeObservation TimeAwareObservation",
    }
    known |= {name for names in computing for name in names.split()}
    assert set(gym.wrappers.__all__) <= known
