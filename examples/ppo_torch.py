"""Train a small PyTorch agent on CartPole, a NumPy environment: proximal policy optimisation (PPO).

The agent only ever sees tensors: `arrayferry.wrap` converts what the environment takes and returns.

    python examples/ppo_torch.py [--quick]
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

import arrayferry

GOAL = 400.0  # mean return of the latest episodes
MAX_STEPS = 500_000
ENVS, STEPS = 16, 64  # size of a rollout
EPOCHS, BATCHES = 6, 4  # passes over a rollout
GAMMA, LAMBDA, CLIP, ENTROPY, LEARNING_RATE = 0.99, 0.95, 0.2, 0.005, 3e-3
LATEST = 20  # episodes in the mean return


@dataclass(frozen=True)
class Progress:
    """The state of training after a rollout."""

    policy: nn.Module
    steps: int
    mean_return: float  # 0 until enough episodes have ended


def train(goal: float = GOAL, max_steps: int = MAX_STEPS, seed: int = 0) -> Iterator[Progress]:
    """Train until the mean return reaches the goal or the steps run out; yield after each rollout."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the networks are too small to gain from more
    envs = arrayferry.wrap(gym.make_vec("CartPole-v1", num_envs=ENVS), "torch")
    policy, value = network(4, 2), network(4, 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=LEARNING_RATE)
    returns: deque[float] = deque(maxlen=LATEST)
    running, done = torch.zeros(ENVS), torch.zeros(ENVS, dtype=torch.bool)
    obs, _ = envs.reset(seed=seed)
    for steps in range(ENVS * STEPS, max_steps + 1, ENVS * STEPS):
        rollout = []
        for _ in range(STEPS):
            action = Categorical(logits=policy(obs)).sample()
            next_obs, reward, terminated, truncated, _ = envs.step(action)
            # The step after the end of an episode only resets: there is nothing to learn from it.
            rollout.append((obs, action, reward, terminated, truncated, ~done))
            running = torch.where(done, 0.0, running + reward)
            done = terminated | truncated
            returns.extend(running[done].tolist())
            obs = next_obs
        learn(policy, value, optimizer, obs, *(torch.stack(column) for column in zip(*rollout)))
        mean_return = sum(returns) / LATEST if len(returns) == LATEST else 0.0
        yield Progress(policy, steps, mean_return)
        if mean_return >= goal:
            break
    envs.close()


def network(inputs: int, outputs: int) -> nn.Module:
    """Return a network with one hidden layer."""
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, outputs))


def learn(
    policy: nn.Module,
    value: nn.Module,
    optimizer: torch.optim.Optimizer,
    last_obs: torch.Tensor,
    obs: torch.Tensor,
    action: torch.Tensor,
    reward: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor,
    valid: torch.Tensor,
) -> None:
    """Improve the policy and the value network on the valid steps of a rollout."""
    with torch.no_grad():
        values = value(torch.cat([obs, last_obs[None]])).squeeze(-1)
        old = Categorical(logits=policy(obs)).log_prob(action)
        advantage, later = torch.zeros_like(reward), torch.zeros(ENVS)
        for t in reversed(range(STEPS)):
            # In a step that ends an episode, the next observation is the last one of that episode.
            error = reward[t] + GAMMA * values[t + 1] * ~terminated[t] - values[t]
            later = error + GAMMA * LAMBDA * later * ~(terminated[t] | truncated[t])
            advantage[t] = later
        target = advantage + values[:-1]
    data = [column[valid] for column in (obs, action, old, advantage, target)]
    data[3] = (data[3] - data[3].mean()) / (data[3].std() + 1e-8)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(data[0])).chunk(BATCHES):
            obs_, action_, old_, advantage_, target_ = (column[chosen] for column in data)
            distribution = Categorical(logits=policy(obs_))
            ratio = (distribution.log_prob(action_) - old_).exp()
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            gain = torch.minimum(ratio * advantage_, clipped * advantage_).mean()
            value_loss = (value(obs_).squeeze(-1) - target_).square().mean()
            optimizer.zero_grad()
            (0.5 * value_loss - gain - ENTROPY * distribution.entropy().mean()).backward()
            nn.utils.clip_grad_norm_([*policy.parameters(), *value.parameters()], 0.5)
            optimizer.step()


def play(policy: nn.Module) -> list[Any]:
    """Play one episode greedily and return its rendered frames."""
    env = arrayferry.wrap(gym.make("CartPole-v1", render_mode="rgb_array"), "torch")
    obs, _ = env.reset(seed=0)
    frames, done = [env.render()], False
    while not done:
        obs, _, terminated, truncated, _ = env.step(policy(obs).argmax())
        frames.append(env.render())
        done = terminated or truncated
    env.close()
    return frames


def main() -> None:
    """Train and print the progress."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="take only a few steps")
    arguments = parser.parse_args()
    for progress in train(max_steps=4096 if arguments.quick else MAX_STEPS):
        print(f"{progress.steps:7,} steps: mean return {progress.mean_return:.0f} of {GOAL:.0f}")


if __name__ == "__main__":
    main()
