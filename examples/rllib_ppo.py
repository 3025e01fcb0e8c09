"""Train RLlib's PPO, on its new API stack, on CartPoles of gymnax, which are written in JAX.

    pip install "arrayferry[rllib,gymnax]"
    python examples/rllib_ppo.py [--quick]

It prints the mean return of the last episodes.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnax
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

import arrayferry


def make(config: Any) -> Any:
    """Return an environment of NumPy arrays, which RLlib's episodes hold."""
    return arrayferry.wrap(gymnax.make("CartPole-v1"), "numpy")  # the line to add


def train(frames: int = 60_000, seed: int = 0, steps: int = 2000) -> float:
    """Return the mean return of the last episodes."""
    ray.init(num_cpus=1, include_dashboard=False, configure_logging=False)
    register_env("cart", make)
    config = (
        PPOConfig()
        .environment("cart")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .training(lr=1e-3, train_batch_size_per_learner=steps, minibatch_size=256, num_epochs=6)
        .training(vf_loss_coeff=0.01, grad_clip=0.5)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False))
        .debugging(seed=seed)
    )
    algorithm = config.build_algo()
    mean = 0.0
    for _ in range(frames // steps):
        mean = float(algorithm.train()["env_runners"]["episode_return_mean"])
    algorithm.stop()
    ray.shutdown()
    return mean


if __name__ == "__main__":
    print(f"mean return {train(4000 if '--quick' in sys.argv else 60_000):.0f}")
