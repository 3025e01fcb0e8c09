"""R14: gradients are those of what the agent saw, though the environment has moved on since."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax
import numpy as np
import torch

from reliability.goals import Goal
from reliability.libraries import Library

CASES = ["after steps", "through an action", "in inference mode", "of JAX"]


class Buffer(gym.Env[Any, Any]):
    """Gives its one buffer, and writes to it and to the action at every step."""

    observation_space = action_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def __init__(self, number: int) -> None:
        self.random = np.random.default_rng(number)
        self.buffer = np.zeros(3, np.float32)
        self.truth: list[Any] = []

    def _fill(self) -> Any:
        self.buffer[:] = self.random.standard_normal(3)
        self.truth.append(self.buffer.copy())
        return self.buffer

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self._fill(), {}

    def step(self, action: Any) -> Any:
        if isinstance(action, np.ndarray) and action.flags.writeable:
            action *= 100
        return self._fill(), 1.0, False, False, {}


def _play(env: Any, target: str, steps: int = 5) -> list[Any]:
    action = torch.zeros(3) if target == "torch" else jax.numpy.zeros(3)
    return [env.reset()[0], *(env.step(action)[0] for _ in range(steps))]


def _gradient(observations: list[Any]) -> Any:
    """Of a loss whose gradient is another for each observation."""
    weight = torch.arange(3.0, requires_grad=True)
    torch.stack([(weight * obs).sum().tanh() * n for n, obs in enumerate(observations)]).sum().backward()
    return weight.grad


def gradient_is_true(number: int, library: Library) -> None:
    case = CASES[number % len(CASES)]
    target = "jax" if case == "of JAX" else "torch"
    base = Buffer(number)
    env = library.wrap(base, "numpy", target)
    if case == "through an action":
        env.reset()
        weight = torch.full((3,), 1.0 + number % 7, requires_grad=True)
        action = weight * weight
        loss = (action * action).sum()
        env.step(action)
        loss.backward()
        assert torch.equal(weight.grad, 4 * weight.detach() ** 3), f"{case}: {weight.grad}"
        return
    if case == "of JAX":
        held = _play(env, target)
        found = jax.grad(lambda w: sum((w * obs).sum() for obs in held))(jax.numpy.ones(3))
        want = jax.grad(lambda w: sum((w * obs).sum() for obs in base.truth))(jax.numpy.ones(3))
        assert np.array_equal(found, want), f"{case}: {found}, not {want}"
        return
    if case == "in inference mode":
        with torch.inference_mode():
            held = _play(env, target)
    else:
        held = _play(env, target)
    found, want = _gradient(held), _gradient([torch.from_numpy(truth) for truth in base.truth])
    assert torch.equal(found, want), f"{case}: {found}, not {want}"


GOALS = [
    Goal(
        name="R14",
        title="gradients are of what was seen",
        trial=gradient_is_true,
        unit=f"one of {len(CASES)} trainings ({', '.join(CASES)}) on an environment with one buffer",
        full=2_000,
        thin=80,
        peer=200,
    )
]
