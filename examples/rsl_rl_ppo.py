"""Train rsl_rl's PPO on 256 CartPoles of gymnax, which are written in JAX.

    pip install "arrayferry[rsl-rl,gymnax]"
    python examples/rsl_rl_ppo.py [--quick]

rsl_rl's actions are real numbers: their sign decides which way the cart is pushed.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnax
import torch
from gymnasium.spaces import Box
from gymnasium.wrappers.vector import TransformAction
from rsl_rl.runners import OnPolicyRunner

from arrayferry.envs import as_gymnasium
from arrayferry.learners import rsl_rl_vec_env
from arrayferry.wrappers.vector import RecordEpisodeStatistics

ENVS, STEPS = 256, 32


def to_the_side(action: Any) -> Any:
    """Return the push for each cart."""
    return (action[:, 0] > 0).astype("int32")


def train(frames: int = 800_000, seed: int = 0) -> float:
    """Return the mean return of the last 100 episodes."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    carts = RecordEpisodeStatistics(as_gymnasium(gymnax.make("CartPole-v1"), ENVS))
    pushed = TransformAction(carts, to_the_side, Box(-1, 1, (ENVS, 1)), Box(-1, 1, (1,)))
    envs = rsl_rl_vec_env(pushed, seed=seed)  # the line to add
    model = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "tanh"}
    cfg = {
        "num_steps_per_env": STEPS,
        "save_interval": 1000,
        "obs_groups": {"actor": ["observation"], "critic": ["observation"]},
        "actor": model | {"distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": model,
        "algorithm": {"class_name": "PPO", "learning_rate": 1e-3, "entropy_coef": 0.0},
    }
    OnPolicyRunner(envs, cfg).learn(frames // (ENVS * STEPS))
    return sum(map(float, carts.return_queue)) / max(1, len(carts.return_queue))


if __name__ == "__main__":
    print(f"mean return {train(24_576 if '--quick' in sys.argv else 800_000):.0f}")
