"""Gradients are those of what the agent saw, whatever the environment did since."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import arrayferry
from helpers.envs import Recorder, Reusing

torch = pytest.importorskip("torch")


class Buffer(Recorder):
    """Gives its one buffer, and writes to it at every step."""

    def __init__(self) -> None:
        super().__init__(spaces.Box(-1e3, 1e3, (3,), np.float32))
        self.buffer = np.ones(3, np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.buffer, {}

    def step(self, action: Any) -> Any:
        self.buffer *= 10
        action *= 100
        return self.buffer, 1.0, False, False, {}


def test_backward_after_the_environment_has_stepped_on() -> None:
    env = arrayferry.wrap(Buffer(), "torch")
    obs, _ = env.reset()
    weight = torch.ones(3, requires_grad=True)
    loss = (obs * weight).sum()
    env.step(torch.zeros(3))
    env.step(torch.zeros(3))
    loss.backward()
    assert weight.grad.tolist() == [1, 1, 1]


def test_backward_through_an_action_that_the_environment_wrote_to() -> None:
    env = arrayferry.wrap(Buffer(), "torch")
    env.reset()
    weight = torch.full((3,), 2.0, requires_grad=True)
    action = weight * weight
    loss = (action * action).sum()
    env.step(action)
    loss.backward()
    assert weight.grad.tolist() == [4 * 2.0**3] * 3
    assert action.tolist() == [4, 4, 4]


def test_a_rollout_trained_on_afterwards_equals_the_reference() -> None:
    """Reinforce on a whole episode: the gradient is bit for bit that on copies made by hand."""

    def gradient(wrapped: bool) -> Any:
        torch.manual_seed(0)
        policy = torch.nn.Linear(4, 2)
        env: Any = gym.make("CartPole-v1")
        env = arrayferry.wrap(env, "torch") if wrapped else env
        obs, _ = env.reset(seed=2)
        losses = []
        for _ in range(12):
            seen = obs if wrapped else torch.from_numpy(np.array(obs))
            logits = policy(seen)
            action = logits.argmax()
            losses.append(-logits.log_softmax(0)[action])
            obs, reward, terminated, truncated, _ = env.step(action if wrapped else int(action))
            losses[-1] = losses[-1] * reward
            if terminated or truncated:
                break
        torch.stack(losses).sum().backward()
        return policy.weight.grad

    assert torch.equal(gradient(True), gradient(False))


@pytest.mark.parametrize("scalars", ["python", "target"])
def test_what_a_rollout_in_inference_mode_gave_can_be_trained_on(scalars: str) -> None:
    env = arrayferry.wrap(Reusing(), "torch", scalars=scalars)
    policy = torch.nn.Linear(3, 2)
    held = []
    with torch.inference_mode():
        obs, info = env.reset()
        for _ in range(3):
            held.append((obs, info))
            obs, reward, _, _, info = env.step(policy(obs["a"]))
    assert all(not item.is_inference() for obs, info in held for item in (*obs.values(), info["image"]))
    if scalars == "target":
        assert not reward.is_inference()
    loss = sum(policy(obs["a"]).sum() * (number + 1) for number, (obs, _) in enumerate(held))
    loss.backward()
    want = sum(np.full(3, number, np.float32) * (number + 1) for number in range(3))
    assert policy.weight.grad.tolist() == [want.tolist()] * 2
    held[0][0]["a"].requires_grad_()
    policy(held[0][0]["a"]).sum().backward()
    assert held[0][0]["a"].grad is not None


def test_the_same_for_a_jax_environment_and_a_vector_environment() -> None:
    jnp = pytest.importorskip("jax.numpy")
    envs = [
        arrayferry.wrap(Recorder(xp=jnp), "torch"),
        arrayferry.wrap(gym.vector.SyncVectorEnv([Recorder, Recorder], copy=False), "torch"),
    ]
    for env in envs:
        with torch.inference_mode():
            obs, _ = env.reset()
            after, *_ = env.step(torch.zeros(obs.shape))
        weight = torch.ones(3, requires_grad=True)
        ((obs + after) * weight).sum().backward()
        assert weight.grad.tolist() == [0, 0, 0]
        assert not after.is_inference()


def test_no_observation_carries_history_or_asks_for_gradients() -> None:
    """An environment that computes with torch parameters of its own does not leak its graph."""
    inner = torch.ones(3, requires_grad=True)

    class Differentiable(Recorder):
        def step(self, action: Any) -> Any:
            return inner * 2, inner.sum(), torch.tensor(False), torch.tensor(False), {"a": inner * 3}

    env = arrayferry.wrap(Differentiable(xp=torch), "torch")
    env.reset()
    obs, reward, terminated, _, info = env.step(torch.zeros(3, requires_grad=True))
    assert not obs.requires_grad
    assert not info["a"].requires_grad
    assert (reward, terminated) == (3.0, False)
    assert type(reward) is float


def test_an_action_that_requires_grad_reaches_a_jax_environment() -> None:
    jnp = pytest.importorskip("jax.numpy")
    base = Recorder(xp=jnp)
    env = arrayferry.wrap(base, "torch")
    env.reset()
    env.step(torch.ones(3, requires_grad=True) * 2)
    assert base.actions[0].tolist() == [2, 2, 2]


def test_gradients_in_jax_are_of_what_was_seen() -> None:
    jax = pytest.importorskip("jax")
    env = arrayferry.wrap(Buffer(), "jax")
    obs, _ = env.reset()
    loss, pull = jax.vjp(lambda weight: (obs * weight).sum(), jax.numpy.ones(3))
    env.step(jax.numpy.zeros(3))
    env.step(jax.numpy.zeros(3))
    assert float(loss) == 3.0
    assert pull(jax.numpy.float32(1))[0].tolist() == [1, 1, 1]
