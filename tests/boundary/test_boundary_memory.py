"""What the agent receives is its own, and what the environment holds stays the environment's."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import arrayferry
from helpers.compare import assert_crossed, seen
from helpers.envs import Recorder, Reusing, Scripted


def there(value: Any, target: str) -> Any:
    return arrayferry.convert(value, target)


@pytest.mark.parametrize("how", [{}, {"copy": True}], ids=str)
def test_an_environment_that_reuses_its_buffers(how: dict[str, Any], target: str) -> None:
    bare, env = Reusing(), arrayferry.wrap(Reusing(), target, **how)
    truth = [copy.deepcopy(bare.reset())]
    history = [env.reset()]
    for _ in range(8):
        observation, _, _, _, info = bare.step(np.zeros(2, np.float32))
        truth.append(copy.deepcopy((observation, info)))
        got = env.step(there(np.zeros(2, np.float32), target))
        history.append((got[0], got[4]))
    for number, (one, other) in enumerate(zip(history, truth)):
        assert_crossed(one, other, target, f"step {number}")


def test_large_observations_with_a_busy_device() -> None:
    """JAX reads what it is given after its calls return, from 100 KB on even when it is idle."""
    jax = pytest.importorskip("jax")

    class Large(Recorder):
        buffer = np.zeros(200_000, np.float32)[1:]  # not aligned to 64 bytes

        def step(self, action: Any) -> Any:
            self.buffer += 1
            return self.buffer, 0.0, False, False, {"b": self.buffer[::-1]}

    learner = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, y: y @ y * 0.5, x))
    env = arrayferry.wrap(Large(), "jax")
    env.reset()
    pending, held = [], []
    for _ in range(10):
        pending.append(learner(jax.numpy.eye(64)))
        obs, _, _, _, info = env.step(jax.numpy.zeros(3))
        held.append((obs, info["b"]))
    for number, arrays in enumerate(held, start=1):
        assert all((np.asarray(array) == number).all() for array in arrays)


@pytest.mark.parametrize("name", ["MountainCarContinuous-v0", "CartPole-v1", "Pendulum-v1"])
def test_the_agent_scales_its_observation_and_the_physics_stay(name: str) -> None:
    """MountainCarContinuous returns its own state array."""
    torch = pytest.importorskip("torch")
    for target in ("numpy", "torch"):
        bare, env = gym.make(name), arrayferry.wrap(gym.make(name), target)
        want, _ = bare.reset(seed=3)
        got, _ = env.reset(seed=3)
        bare.action_space.seed(3)
        for _ in range(8):
            assert np.asarray(got).tobytes() == np.asarray(want).tobytes()
            got *= 1000
            action = bare.action_space.sample()
            given = torch.as_tensor(action) if target == "torch" else action
            got, *_ = env.step(given)
            want, *_ = bare.step(action)
            want = want.copy()


def test_writing_to_what_was_received_reaches_nobody(target: str) -> None:
    base = Reusing()
    env = arrayferry.wrap(base, target)
    obs, info = env.reset()
    before = copy.deepcopy((base.observation, base.info))
    for array in (obs["a"], obs["b"], info["image"], info["nested"]["c"]):
        try:
            array[...] = 77
        except (TypeError, NotImplementedError, IndexError):
            continue  # arrays of this framework cannot be written
    obs["a"] = None
    info.clear()
    assert_crossed((base.observation, base.info), before, "numpy")
    again = env.step(there(np.zeros(2, np.float32), target))
    assert seen(again[0]["a"]).tolist() == [1.0] * 3


def test_received_arrays_are_writable_where_the_framework_has_writable_arrays() -> None:
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    frozen = np.arange(3, dtype=np.float32)
    frozen.flags.writeable = False
    for source in (
        frozen,
        jnp.arange(3.0),
        np.arange(3, dtype=np.float32)[::-1],
        np.broadcast_to(np.float32(1), 3),
    ):
        for target in ("numpy", "torch"):
            obs, _ = arrayferry.wrap(Scripted(reset=(source, {})), target).reset()
            obs[0] = 55
            assert float(np.asarray(source)[0]) != 55
            assert float(obs[0]) == 55
            assert isinstance(obs, np.ndarray if target == "numpy" else torch.Tensor)


def test_the_environment_s_own_dict_is_not_handed_out(target: str) -> None:
    base = Reusing()
    env = arrayferry.wrap(base, target)
    obs, info = env.reset()
    assert obs is not base.observation
    assert info is not base.info
    assert info["nested"] is not base.info["nested"]
    obs["new"] = info["new"] = 1
    assert "new" not in base.observation
    assert "new" not in base.info


def test_an_environment_that_remembers_weakly_what_it_gave() -> None:
    """Nobody counts a weak reference, and it is a way in all the same."""
    pytest.importorskip("torch")

    class Weak(Recorder):
        given: Any = staticmethod(lambda: None)

        def step(self, action: Any) -> Any:
            last = self.given()
            if last is not None:
                last[:] = 99
            observation = np.ones(3, np.float32)
            self.given = weakref.ref(observation)
            return observation, 0.0, False, False, {}

    for target in ("torch", "numpy"):
        env = arrayferry.wrap(Weak(), target)
        env.reset()
        held = [env.step([0.0, 0.0, 0.0])[0] for _ in range(3)]
        assert [obs.tolist() for obs in held] == [[1, 1, 1]] * 3


def test_a_flipped_image(target: str) -> None:
    """A negative stride ends the process in torch's own conversion."""
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    views = {
        "up": image[::-1],
        "both": image[::-1, ::-1],
        "colours": image[..., ::-1],
        "chw": image.transpose(2, 0, 1),
    }
    obs, _ = arrayferry.wrap(Scripted(reset=(views, {})), target).reset()
    image_before = {key: view.copy() for key, view in views.items()}
    image[:] = 0
    assert_crossed(obs, image_before, target)


def test_sharing_on_request_is_sharing() -> None:
    """So that the tests above can fail: with `copy=False` all of it shows."""
    pytest.importorskip("torch")
    base = Reusing()
    env = arrayferry.wrap(base, "torch", copy=False)
    obs, _ = env.reset()
    base.observation["a"][:] = 5
    assert obs["a"].tolist() == [5] * 3


def test_an_observation_is_not_the_wrapper_s_to_keep_alive() -> None:
    torch = pytest.importorskip("torch")
    env = arrayferry.wrap(gym.make("CartPole-v1", disable_env_checker=True), "torch")
    env.reset(seed=1)
    obs, *_ = env.step(torch.tensor(1))
    gone = weakref.ref(obs)
    del obs, _
    gc.collect()
    assert gone() is None
