"""Train the PPO of Stable-Baselines3, or of sbx, on 64 CartPoles of gymnax, which are written in JAX.

    pip install "arrayferry[sb3,sbx,gymnax]"
    python examples/sb3_ppo.py [--sbx] [--quick]

It prints the mean return of the last episodes.
"""

from __future__ import annotations

import sys
from importlib import import_module

import gymnax
import torch
from stable_baselines3.common.vec_env import VecMonitor

from arrayferry.envs import as_gymnasium
from arrayferry.learners import sb3_vec_env

ENVS, STEPS = 64, 32


def train(frames: int = 400_000, seed: int = 0, package: str = "stable_baselines3") -> float:
    """Return the mean return of the last 100 episodes."""
    torch.set_num_threads(1)
    envs = sb3_vec_env(as_gymnasium(gymnax.make("CartPole-v1"), ENVS))  # the line to add
    model = import_module(package).PPO(
        "MlpPolicy",
        VecMonitor(envs),
        n_steps=STEPS,
        batch_size=512,
        n_epochs=4,
        learning_rate=1e-3,
        gamma=0.98,
        gae_lambda=0.8,
        seed=seed,
        device="cpu",
    )
    model.learn(frames)
    returns = [episode["r"] for episode in model.ep_info_buffer]
    return float(sum(returns) / max(1, len(returns)))


if __name__ == "__main__":
    package = "sbx" if "--sbx" in sys.argv else "stable_baselines3"
    print(f"mean return {train(8192 if '--quick' in sys.argv else 400_000, package=package):.0f}")
