"""Train RLlib's PPO on an environment written in JAX, which its env runners step.

RLlib wants NumPy arrays; the wrapper gives it those, and gives the environment the actions that it expects.
Call `ray.init(address=...)` first to train on a cluster.

    pip install "arrayferry[rllib,phys2d]"
    python examples/rllib_jax.py [--quick]
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

warnings.simplefilter("ignore")  # RLlib warns about itself

import gymnasium as gym  # noqa: E402
import ray  # noqa: E402
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.tune import register_env  # noqa: E402

import arrayferry  # noqa: E402


def make_env(_: Any = None) -> gym.Env[Any, Any]:
    """Return Gymnasium's CartPole in JAX, with NumPy arrays on the outside."""
    import gymnasium.envs.phys2d  # noqa: F401  # registers it, also on the env runners' hosts

    return arrayferry.wrap(gym.make("phys2d/CartPole-v1"), "numpy")


def configured(runners: int = 2) -> PPOConfig:
    """Return how to train: with two environments in each env runner."""
    register_env("cartpole-in-jax", make_env)
    config = PPOConfig().environment("cartpole-in-jax")
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=2, rollout_fragment_length=250)
    config.training(train_batch_size_per_learner=500 * runners, minibatch_size=250, num_epochs=8, lr=1e-3)
    return config


def train(algorithm: Any, iterations: int) -> list[float]:
    """Return the mean return of each iteration."""
    returns = []
    for number in range(iterations):
        result = algorithm.train()["env_runners"]
        returns.append(result["episode_return_mean"])
        steps = result["num_env_steps_sampled_lifetime"]
        print(f"iteration {number + 1}: {steps:.0f} steps, mean return {returns[-1]:.1f}")
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two iterations")
    quick = parser.parse_args().quick
    if not ray.is_initialized():
        ray.init(address="local", include_dashboard=False, log_to_driver=False)
    train(configured().build_algo(), 2 if quick else 25)
