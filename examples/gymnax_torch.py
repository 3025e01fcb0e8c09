"""Train a PyTorch policy on 256 CartPoles of gymnax, which are written in JAX: REINFORCE with a baseline.

The agent only ever sees tensors. One line makes the environments; each step is one call compiled by JAX.

    pip install arrayferry[gymnax,torch]
    python examples/gymnax_torch.py [--quick]
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnax
import torch
from torch import nn
from torch.distributions import Categorical

import arrayferry

ENVS, STEPS, GAMMA, LEARNING_RATE = 256, 64, 0.97, 5e-3


def train(updates: int, seed: int = 0) -> list[float]:
    """Return the mean length of the episodes that ended in each update."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs: Any = arrayferry.wrap(gymnax.make("CartPole-v1"), "torch", num_envs=ENVS)
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=LEARNING_RATE)
    obs, _ = envs.reset(seed=seed)
    lengths, progress = torch.zeros(ENVS), []
    for _ in range(updates):
        rollout, ended = [], []
        for _ in range(STEPS):
            action = Categorical(logits=policy(obs)).sample()
            next_obs, reward, terminated, truncated, info = envs.step(action)
            done = terminated | truncated
            # The value of what was cut short counts; the observation after it is of the next episode.
            cut = info.get("final_obs", next_obs)
            with torch.no_grad():
                reward = reward + GAMMA * truncated * ~terminated * value(cut).squeeze(-1)
            rollout.append((obs, action, reward, done))
            lengths += 1
            ended += lengths[done].tolist()
            lengths[done] = 0
            obs = next_obs
        learn(policy, value, optimizer, rollout, obs)
        progress.append(sum(ended) / max(1, len(ended)))
    return progress


def learn(
    policy: nn.Module, value: nn.Module, optimizer: Any, rollout: list[Any], last: torch.Tensor
) -> None:
    """Take one gradient step with the returns of a rollout."""
    with torch.no_grad():
        returns, following = [], value(last).squeeze(-1)
        for _, _, reward, done in reversed(rollout):
            following = reward + GAMMA * following * ~done
            returns.append(following)
    obs, actions, *_ = (torch.stack(part) for part in zip(*rollout))
    gain = torch.stack(returns[::-1])
    baseline = value(obs).squeeze(-1)
    advantage = (gain - baseline).detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    chosen = Categorical(logits=policy(obs))
    loss = -(chosen.log_prob(actions) * advantage).mean() + 0.01 * (gain - baseline).square().mean()
    optimizer.zero_grad()
    (loss - 0.01 * chosen.entropy().mean()).backward()
    optimizer.step()


def main() -> None:
    """Train, and print how long episodes are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only a few updates")
    updates = 12 if parser.parse_args().quick else 150
    for update, length in enumerate(train(updates), 1):
        if update % max(1, updates // 12) == 0:
            print(f"update {update:4}   {update * ENVS * STEPS:9,} steps   episodes last {length:6.1f} steps")


if __name__ == "__main__":
    main()
