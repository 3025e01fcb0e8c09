"""Train three PyTorch agents on `simple_spread`, an environment with PettingZoo's interface, on NumPy.

One line lets the agents see tensors: `arrayferry.wrap(env, "torch")`. The rest is advantage
actor-critic, with one policy for all of them.

    pip install "arrayferry[torch,pettingzoo]" mpe2
    python examples/pettingzoo_torch.py [--quick]
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from mpe2 import simple_spread_v3
from torch import nn
from torch.distributions import Categorical

import arrayferry

EPISODES, BATCH = 3000, 20  # episodes in all, and between two updates
GAMMA, ENTROPY, LEARNING_RATE = 0.95, 0.01, 3e-3


class Policy(nn.Module):
    """Rates each action, and the situation itself."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.action, self.value = nn.Linear(64, actions), nn.Linear(64, 1)

    def forward(self, obs: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        """Return a distribution of actions and a value, for a batch of observations."""
        features = self.body(obs)
        return Categorical(logits=self.action(features)), self.value(features).squeeze(-1)


def play(
    env: Any, policy: Policy, seed: int | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Play an episode; return observations, actions and rewards, of shape (steps, agents, ...)."""
    observations, actions, rewards = [], [], []
    obs, _ = env.reset(seed=seed)
    while env.agents:
        batch = torch.stack([obs[agent] for agent in env.agents])
        with torch.no_grad():
            chosen = policy(batch)[0].sample()
        obs, reward, _, _, _ = env.step(dict(zip(env.agents, chosen)))
        observations.append(batch)
        actions.append(chosen)
        rewards.append(torch.tensor([*reward.values()], dtype=torch.float32))
    return torch.stack(observations), torch.stack(actions), torch.stack(rewards)


def returns_of(rewards: torch.Tensor) -> torch.Tensor:
    """Return the discounted sums of the rewards still to come."""
    returns = rewards.clone()
    for step in reversed(range(len(rewards) - 1)):
        returns[step] += GAMMA * returns[step + 1]
    return returns


def main() -> None:
    """Train, and report the progress."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three updates only")
    updates = 3 if parser.parse_args().quick else EPISODES // BATCH
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env = arrayferry.wrap(simple_spread_v3.parallel_env(), "torch")
    agent = env.possible_agents[0]
    policy = Policy(env.observation_space(agent).shape[0], int(env.action_space(agent).n))
    optimizer = torch.optim.Adam(policy.parameters(), LEARNING_RATE)
    for update in range(updates):
        episodes = [play(env, policy, seed=None if update else number) for number in range(BATCH)]
        observations, actions = (torch.cat([one[part] for one in episodes]) for part in (0, 1))
        returns = torch.cat([returns_of(rewards) for _, _, rewards in episodes])
        target = (returns - returns.mean()) / (returns.std() + 1e-6)
        choice, value = policy(observations)
        advantage = target - value.detach()
        loss = (value - target).square().mean() - (choice.log_prob(actions) * advantage).mean()
        optimizer.zero_grad()
        (loss - ENTROPY * choice.entropy().mean()).backward()
        optimizer.step()
        if update % 10 == 0 or update == updates - 1:
            mean = torch.stack([rewards.sum(0).mean() for _, _, rewards in episodes]).mean()
            print(f"update {update + 1:3}: mean return {mean:.1f}", flush=True)


if __name__ == "__main__":
    main()
