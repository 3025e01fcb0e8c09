"""Train a PyTorch policy on 256 CartPoles of gymnax, which are written in JAX: REINFORCE with a baseline.

The agent only ever sees tensors. One line makes the environments; each step is one call compiled by JAX.

    pip install "arrayferry[gymnax,torch]"
    python examples/gymnax_torch.py [--quick]
"""

import sys
from collections.abc import Iterator
from typing import Any

import gymnax
import torch
from torch import nn
from torch.distributions import Categorical

import arrayferry

ENVS, STEPS, GAMMA = 256, 64, 0.97


def learn(policy: nn.Module, critic: nn.Module, optimizer: Any, last_obs: Any, rollout: list[Any]) -> None:
    """Take one gradient step with the returns of a rollout, whose steps are (obs, action, reward, done)."""
    obs, action, returns, done = map(torch.stack, zip(*rollout))
    returns[-1] += GAMMA * ~done[-1] * critic(last_obs).squeeze(-1).detach()
    for step in reversed(range(STEPS - 1)):
        returns[step] += GAMMA * ~done[step] * returns[step + 1]
    chosen, error = Categorical(logits=policy(obs)), returns - critic(obs).squeeze(-1)
    advantage = (error.detach() - error.detach().mean()) / (error.detach().std() + 1e-6)
    loss = 0.01 * error**2 - chosen.log_prob(action) * advantage - 0.01 * chosen.entropy()
    optimizer.zero_grad()
    loss.mean().backward()
    optimizer.step()


def train(updates: int, seed: int = 0) -> Iterator[float]:
    """Yield the mean length of the last 100 episodes after each update."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the networks are too small to gain from more
    envs: Any = arrayferry.wrap(gymnax.make("CartPole-v1"), "torch", num_envs=ENVS)  # the line to add
    envs = arrayferry.wrappers.vector.RecordEpisodeStatistics(envs)
    policy, critic = (nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, n)) for n in (2, 1))
    optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=5e-3)
    obs, _ = envs.reset(seed=seed)
    for _ in range(updates):
        rollout = []
        for _ in range(STEPS):
            action = Categorical(logits=policy(obs)).sample()
            before, (obs, reward, terminated, truncated, info) = obs, envs.step(action)
            if (cut := truncated & ~terminated).any():  # these episodes would have gone on
                reward = reward + GAMMA * cut * critic(info["final_obs"]).squeeze(-1).detach()
            rollout.append((before, action, reward, terminated | truncated))
        learn(policy, critic, optimizer, obs, rollout)
        yield sum(map(float, envs.length_queue)) / max(1, len(envs.length_queue))


if __name__ == "__main__":
    for update, length in enumerate(train(12 if "--quick" in sys.argv else 150), 1):
        print(f"update {update:4}   {update * ENVS * STEPS:9,} steps   episodes last {length:6.1f} steps")
