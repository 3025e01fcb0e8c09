"""Train TorchRL's PPO on 64 CartPoles of gymnax, which are written in JAX.

    pip install "arrayferry[torchrl,gymnax]"
    python examples/torchrl_ppo.py [--quick]

It prints the mean return of the last episodes.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnax
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import RewardSum, TransformedEnv
from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from arrayferry.envs import as_gymnasium
from arrayferry.learners import torchrl_env

ENVS, STEPS, EPOCHS, BATCHES = 64, 64, 4, 8


def train(frames: int = 250_000, seed: int = 0) -> float:
    """Return the mean return of the episodes that ended in the last rollout."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = torchrl_env(as_gymnasium(gymnax.make("CartPole-v1"), ENVS))  # the line to add
    policy, critic = (nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, n)) for n in (2, 1))
    logits = TensorDictModule(policy, ["observation"], ["logits"])
    actor = ProbabilisticActor(logits, ["logits"], distribution_class=OneHotCategorical, return_log_prob=True)
    value = ValueOperator(critic)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=value)
    loss = ClipPPOLoss(actor, value, entropy_coeff=0.005)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-3)
    envs = TransformedEnv(envs, RewardSum())
    collector: Any = Collector(envs, actor, frames_per_batch=ENVS * STEPS, total_frames=frames)
    mean = 0.0
    for rollout in collector:
        for _ in range(EPOCHS):
            advantage(rollout)
            flat = rollout.reshape(-1)
            for chosen in torch.randperm(len(flat)).chunk(BATCHES):
                parts = loss(flat[chosen])
                optimizer.zero_grad()
                (parts["loss_objective"] + parts["loss_critic"] + parts["loss_entropy"]).backward()
                optimizer.step()
        mean = rollout["next", "episode_reward"][rollout["next", "done"]].mean().item()
    collector.shutdown()
    return mean


if __name__ == "__main__":
    print(f"mean return {train(8192 if '--quick' in sys.argv else 250_000):.0f}")
