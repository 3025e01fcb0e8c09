"""Train a linear policy on dm_control's cart-pole by random search, in torch.

To install what it needs: pip install "arrayferry[torch,dm]" dm-control "mujoco<4"
"""

from __future__ import annotations

import torch
from dm_control import suite

import arrayferry


def play(env: arrayferry.wrappers.ArrayConversion[torch.Tensor], policy: torch.Tensor, steps: int) -> float:
    """Return the sum of the rewards of the first steps of an episode."""
    observation, _ = env.reset(seed=0)
    total = 0.0
    for _ in range(steps):
        state = torch.cat([part.flatten() for part in observation.values()])
        observation, reward, _, _, _ = env.step(torch.tanh(policy @ state).reshape(1))
        total += reward
    return total


def main(candidates: int = 20, steps: int = 200) -> None:
    """Keep the best of some random policies."""
    torch.manual_seed(0)
    env = arrayferry.wrap(suite.load("cartpole", "balance"), "torch")
    policies = torch.randn(candidates, 5, dtype=torch.float64)
    rewards = [play(env, policy, steps) for policy in policies]
    print(f"the first policy: {rewards[0]:.1f}, the best of {candidates}: {max(rewards):.1f} of {steps}")


if __name__ == "__main__":
    main()
