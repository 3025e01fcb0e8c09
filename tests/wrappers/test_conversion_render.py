"""`render` is for people and video writers: NumPy frames, strings and None, whatever the target."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from helpers.envs import Counter


def rendered(env: gym.Env[Any, Any], target: str) -> Any:
    wrapped = arrayferry.wrap(env, target)
    wrapped.reset()
    wrapped.step(arrayferry.convert(np.array(1), target))
    return wrapped.render()


def assert_frame(frame: Any, value: int = 1) -> None:
    assert type(frame) is np.ndarray
    assert (frame.dtype, frame.shape) == (np.uint8, (4, 6, 3))
    assert (frame == value).all()


def test_a_frame(target: str) -> None:
    assert_frame(rendered(Counter(render_mode="rgb_array"), target))


def test_a_string(target: str) -> None:
    assert rendered(Counter(render_mode="ansi"), target) == "step 1"


def test_nothing(target: str) -> None:
    assert rendered(Counter(), target) is None


def test_a_list_of_frames(target: str) -> None:
    frames = rendered(Counter(render_mode="rgb_array_list"), target)
    assert type(frames) is list
    for frame in frames:
        assert_frame(frame)
    assert len(frames) == 2


def test_a_frame_is_the_agent_s_own(target: str) -> None:
    screen = np.zeros((4, 6, 3), np.uint8)
    env = Counter(render_mode="rgb_array")
    env.render = lambda: screen  # type: ignore[method-assign]
    frame = rendered(env, target)
    screen[:] = 9
    assert (frame == 0).all()


def test_frames_of_a_jax_renderer_are_numpy_s() -> None:
    jnp = pytest.importorskip("jax.numpy")
    torch = pytest.importorskip("torch")
    for make in (jnp.ones, torch.ones):
        env = Counter(render_mode="rgb_array")
        env.render = lambda make=make: make((4, 6, 3), dtype=(jnp if make is jnp.ones else torch).uint8)  # type: ignore[method-assign]
        assert_frame(rendered(env, "torch"))


def test_the_screen_of_classic_control(target: str) -> None:
    pytest.importorskip("pygame")
    bare, env = (gym.make("CartPole-v1", render_mode="rgb_array") for _ in range(2))
    wrapped = arrayferry.wrap(env, target)
    bare.reset(seed=1)
    wrapped.reset(seed=1)
    frame, want = wrapped.render(), bare.render()
    assert type(frame) is np.ndarray
    assert frame.tobytes() == want.tobytes()
    assert frame.shape == want.shape
    bare.close()
    wrapped.close()


def test_the_frames_of_a_vector_environment(target: str) -> None:
    envs = gym.vector.SyncVectorEnv([lambda: Counter(render_mode="rgb_array")] * 2)
    wrapped = arrayferry.wrap(envs, target)
    wrapped.reset()
    wrapped.step(arrayferry.convert(np.array([1, 1]), target))
    frames = wrapped.render()
    assert type(frames) is tuple
    assert len(frames) == 2
    for frame in frames:
        assert_frame(frame)


def test_a_vector_environment_that_renders_nothing(target: str) -> None:
    wrapped = arrayferry.wrap(gym.vector.SyncVectorEnv([Counter, Counter]), target)
    wrapped.reset()
    assert wrapped.render() == (None, None)
