"""Gymnasium's wrappers that compute with NumPy say so around an environment of another framework."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from arrayferry import wrappers as ours
from arrayferry.errors import FrameworkWarning
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


def vector_env() -> Any:
    return gym.vector.SyncVectorEnv([lambda: Counter(**IMAGE)] * 2)


def reset_twice(env: Any) -> None:
    for _ in range(2):
        with suppress(Exception):  # some raise, too
            env.reset(seed=1)


@pytest.mark.parametrize("name", SINGLE)
def test_outside_it_warns_once_and_names_the_remedy(name: str) -> None:
    if not hasattr(ours, name):
        pytest.skip("not in this version of Gymnasium")
    env = SINGLE[name](arrayferry.wrap(Counter(**IMAGE), "torch"))
    with pytest.warns(FrameworkWarning, match=rf"arrayferry.wrap\({name}\(env, ...\), 'torch'\)") as caught:
        reset_twice(env)
    assert [one.filename for one in caught if one.category is FrameworkWarning] == [__file__]


@pytest.mark.parametrize("name", VECTOR)
def test_outside_of_a_vector_it_warns_once(name: str) -> None:
    envs = VECTOR[name](arrayferry.wrap(vector_env(), "torch"))
    with pytest.warns(FrameworkWarning, match=f"{name} computes with NumPy"), suppress(Exception):
        envs.reset(seed=1)


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
    staying = {
        "RecordEpisodeStatistics NormalizeObservation NormalizeReward ClipReward ClipAction RescaleAction",
        "RescaleObservation FlattenObservation FrameStackObservation TransformObservation TransformReward",
        "DtypeObservation TimeAwareObservation",
    }
    known |= {name for names in staying for name in names.split()}
    assert set(gym.wrappers.__all__) <= known
