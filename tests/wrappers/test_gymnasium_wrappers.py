"""Gymnasium's own wrappers, inside and, where they make sense, outside of ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers as theirs

import arrayferry
from helpers.compare import assert_array, assert_crossed, seen
from helpers.envs import Counter

INSIDE = {
    "RecordEpisodeStatistics": lambda env: theirs.RecordEpisodeStatistics(env),
    "NormalizeObservation": lambda env: theirs.NormalizeObservation(env),
    "FrameStackObservation": lambda env: theirs.FrameStackObservation(env, 2),
    "TimeLimit": lambda env: theirs.TimeLimit(env, 4),
    "Autoreset": lambda env: theirs.Autoreset(env),
    "NormalizeReward": lambda env: theirs.NormalizeReward(env),
    "TimeAwareObservation": lambda env: theirs.TimeAwareObservation(theirs.TimeLimit(env, 10)),
    "DtypeObservation": lambda env: theirs.DtypeObservation(env, np.float16),
    "DelayObservation": lambda env: theirs.DelayObservation(env, 2),
    "FlattenObservation": lambda env: theirs.FlattenObservation(env),
    "RescaleObservation": lambda env: theirs.RescaleObservation(env, 0.0, 1.0),
    "StickyAction": lambda env: theirs.StickyAction(env, 0.5),
    "OrderEnforcing": lambda env: theirs.OrderEnforcing(theirs.PassiveEnvChecker(env)),
}

# pytest made the folder, so it exists.
into_a_folder = pytest.mark.filterwarnings("ignore:.*Overwriting existing videos:UserWarning")

# What a wrapper measures with a clock differs from run to run.
CLOCK = "t"


def without_clock(info: dict[str, Any]) -> dict[str, Any]:
    if "episode" in info:
        info = {**info, "episode": {key: value for key, value in info["episode"].items() if key != CLOCK}}
    return info


@pytest.mark.filterwarnings("ignore:.*precision lowered by casting.*:UserWarning:gymnasium")
@pytest.mark.parametrize("name", INSIDE)
def test_inside(name: str, target: str) -> None:
    wrapper = INSIDE[name]
    bare, env = wrapper(Counter(length=6)), arrayferry.wrap(wrapper(Counter(length=6)), target)
    assert_crossed(env.reset(seed=1), bare.reset(seed=1), target)
    over = False
    for action in (1, 0, 2, 1, 3, 4):
        got, want = env.step(arrayferry.convert(np.array(action), target)), bare.step(np.int64(action))
        assert_crossed(got[0], want[0], target, f"{name}: obs")
        assert got[1:4] == tuple(map(float, want[1:2])) + want[2:4]
        assert_crossed(without_clock(got[4]), without_clock(want[4]), target, f"{name}: info")
        over = over or want[2] or want[3]
        if over and name != "Autoreset":
            break
    assert over, "no episode ended"


def played(env: gym.Env[Any, Any], target: str, steps: int = 3) -> list[Any]:
    results: list[Any] = [env.reset(seed=1)]
    results += [env.step(arrayferry.convert(np.array(1), target)) for _ in range(steps)]
    return results


def test_episode_statistics_outside(target: str) -> None:
    env = theirs.RecordEpisodeStatistics(arrayferry.wrap(Counter(length=3), target))
    info = played(env, target)[-1][4]
    assert info["episode"]["r"] == pytest.approx(0.5 + 1.0 + 1.5)
    assert info["episode"]["l"] == 3


def test_time_limit_outside(target: str, array_type: type) -> None:
    env = theirs.TimeLimit(arrayferry.wrap(Counter(length=9), target), 2)
    results = played(env, target, steps=2)
    assert [result[3] for result in results[1:]] == [False, True]
    assert isinstance(results[-1][0], array_type)


def test_autoreset_outside(target: str) -> None:
    env = theirs.Autoreset(arrayferry.wrap(Counter(length=2), target))
    results = played(env, target, steps=4)
    counts = [int(seen(result[0])[0]) for result in results]
    assert counts == [0, 1, 2, 0, 1]
    assert [result[2] for result in results[1:]] == [False, True, False, False]


def test_order_enforcing_outside(target: str) -> None:
    env = theirs.OrderEnforcing(arrayferry.wrap(Counter(), target))
    with pytest.raises(gym.error.ResetNeeded):
        env.step(arrayferry.convert(np.array(1), target))
    assert len(played(env, target)) == 4


def test_transform_observation_outside(target: str) -> None:
    """The function is the agent's: it sees, and gives, the agent's arrays."""
    env = theirs.TransformObservation(arrayferry.wrap(Counter(), target), lambda obs: obs + obs, None)
    assert_array(played(env, target)[-1][0], np.full(3, 6, np.float32), target)


@pytest.mark.parametrize("framework", ["numpy"])
def test_wrappers_that_compute_with_numpy_work_outside_of_a_wrapper_to_numpy(framework: str) -> None:
    """NormalizeObservation and FrameStackObservation write into NumPy buffers of their own."""
    jnp = pytest.importorskip("jax.numpy")
    shown = {"show": lambda count: jnp.full(3, count, jnp.float32)}
    for make in (theirs.NormalizeObservation, lambda env: theirs.FrameStackObservation(env, 2)):
        want = played(make(Counter()), "numpy")
        got = played(make(arrayferry.wrap(Counter(**shown), framework)), "numpy")
        for one, other in zip(got, want):
            assert_crossed(one[0], other[0], "numpy")


def test_statistics_and_normalisation_around_a_vector_wrapper() -> None:
    envs = gym.vector.SyncVectorEnv([lambda: Counter(length=2)] * 2)
    wrapped = theirs.vector.RecordEpisodeStatistics(arrayferry.wrap(envs, "numpy"))
    wrapped = theirs.vector.NormalizeObservation(wrapped)
    wrapped.reset(seed=1)
    wrapped.step(np.array([1, 1]))
    info = wrapped.step(np.array([1, 1]))[4]
    assert info["episode"]["l"].tolist() == [2, 2]
    assert info["episode"]["r"].tolist() == [1.5, 1.5]


def test_vector_wrappers_inside(target: str) -> None:
    bare, base = (
        theirs.vector.RecordEpisodeStatistics(gym.vector.SyncVectorEnv([lambda: Counter(length=2)] * 2))
        for _ in range(2)
    )
    wrapped = arrayferry.wrap(base, target)
    bare.reset(seed=1)
    wrapped.reset(seed=1)
    for _ in range(2):
        want = bare.step(np.array([1, 1]))
        got = wrapped.step(arrayferry.convert(np.array([1, 1]), target))
    assert "episode" in want[4]
    assert_crossed(without_clock(got[4]), without_clock(want[4]), target, "info")


@into_a_folder
@pytest.mark.parametrize(
    "kind",
    ["single", pytest.param("vector", marks=pytest.mark.needs("gymnasium>=1.3"))],  # the first to have it
)
def test_record_video_outside(kind: str, target: str, tmp_path: Path) -> None:
    pytest.importorskip("moviepy", reason="RecordVideo writes its files with moviepy")
    make = partial(Counter, length=3, render_mode="rgb_array")
    frames: list[Any] = []
    if kind == "single":
        wrapped: Any = arrayferry.wrap(make(), target)
        env: Any = theirs.RecordVideo(
            wrapped, str(tmp_path), episode_trigger=lambda n: n == 0, disable_logger=True
        )
        actions = arrayferry.convert(np.array(1), target)
    else:
        wrapped = arrayferry.wrap(gym.vector.SyncVectorEnv([make, make]), target)
        env = theirs.vector.RecordVideo(
            wrapped,
            str(tmp_path),
            episode_trigger=lambda n: n == 0,
            video_aspect_ratio=(1, 1),
            disable_logger=True,
        )
        actions = arrayferry.convert(np.array([1, 1]), target)
    env.reset(seed=1)
    for _ in range(2):
        env.step(actions)
        frames += env.recorded_frames[-1:]
    assert len(frames) == 2
    assert all(type(frame) is np.ndarray and frame.dtype == np.uint8 for frame in frames)
    env.close()
    (video,) = tmp_path.glob("*.mp4")
    assert video.stat().st_size > 0


@into_a_folder
def test_record_video_inside(target: str, tmp_path: Path) -> None:
    pytest.importorskip("moviepy", reason="RecordVideo writes its files with moviepy")
    env = theirs.RecordVideo(Counter(length=2, render_mode="rgb_array"), str(tmp_path), disable_logger=True)
    wrapped = arrayferry.wrap(env, target)
    played(wrapped, target, steps=2)
    wrapped.close()
    assert len(list(tmp_path.glob("*.mp4"))) == 1
