"""A program with worker processes: `python -m reliability.async_vector_env_program NAME jax inside fork`."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv

from reliability.libraries import LIBRARIES

BOX = gym.spaces.Box(-np.inf, np.inf, (84, 84), np.float32)


class Camera(gym.Env[Any, Any]):
    """Gives images of one framework, which it computes."""

    observation_space, action_space = BOX, gym.spaces.Discrete(2)

    def __init__(self, framework: str) -> None:
        self.xp = import_module("jax.numpy" if framework == "jax" else framework)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.xp.ones(BOX.shape, dtype=self.xp.float32) * 2, {}

    def step(self, action: Any) -> Any:
        return self.xp.ones(BOX.shape, dtype=self.xp.float32) * 2, 1.0, False, False, {}


def make(library: str, framework: str, where: str) -> Any:
    """The environment of a worker."""
    if where == "inside":
        return LIBRARIES[library].wrap(Camera("numpy"), "numpy", framework)
    if where == "environment":
        return LIBRARIES[library].wrap(Camera(framework), framework, "numpy")
    return Camera("numpy")


def use(framework: str) -> None:
    """Start the framework's threads."""
    if framework == "jax":
        import jax

        jax.jit(lambda x: x @ x)(jax.numpy.ones((300, 300))).block_until_ready()
    else:
        import torch

        (torch.ones(800, 800) @ torch.ones(800, 800)).sum().item()


def main(library: str, framework: str, where: str, context: str) -> None:
    """Use the framework, start the workers, and step."""
    warnings.simplefilter("ignore")  # JAX warns of every fork
    use(framework)
    envs: Any = AsyncVectorEnv([partial(make, library, framework, where)] * 2, context=context)
    if where == "outside":
        envs = LIBRARIES[library].wrap(envs, "numpy", framework)
    obs, _ = envs.reset(seed=1)
    for _ in range(20):
        obs = envs.step(np.zeros(2, int))[0]
        assert float(obs.sum()) == 4 * 84 * 84
    envs.close()
    print("stepped")


if __name__ == "__main__":
    main(*sys.argv[1:])
