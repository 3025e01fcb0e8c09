"""Train a PyTorch agent on 64 cartpoles of mjlab, a batched simulator: PPO in one file, in CleanRL's style.

    pip install mjlab arrayferry[torch]
    python examples/mjlab_ppo.py [--quick]

A time limit only cuts an episode short: what would have followed is estimated from the final observation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import mjlab.tasks  # noqa: F401  (which registers them)
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.tasks.registry import load_env_cfg
from torch import nn
from torch.distributions import Normal

import arrayferry

ENVS, STEPS, UPDATES, GAMMA, LAMBDA, CLIP = 64, 32, 8, 0.99, 0.95, 0.2


class Agent(nn.Module):
    """A policy, whose actions are normally distributed, and a critic."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.value = (
            nn.Sequential(nn.Linear(5, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
            for _ in range(2)
        )
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, obs: torch.Tensor) -> Normal:
        """Return the distribution of actions."""
        return Normal(self.mean(obs), self.log_std.exp())


def make_cartpoles(seconds: float) -> ManagerBasedRlEnv:
    """Return a batch of poles to swing up, with episodes of some seconds."""
    cfg = load_env_cfg("Mjlab-Cartpole-Swingup")
    cfg.scene.num_envs, cfg.episode_length_s, cfg.seed = ENVS, seconds, 0
    return ManagerBasedRlEnv(cfg, device="cpu")


def learn(agent: Agent, optimizer: Any, last_obs: Any, rollout: list[Any]) -> None:
    """Improve the agent on a rollout, whose steps are (obs, action, reward, done)."""
    obs, action, reward, done = map(torch.stack, zip(*rollout))
    with torch.no_grad():
        old = agent(obs).log_prob(action)
        value = agent.value(torch.cat([obs, last_obs[None]])).squeeze(-1)
    advantage = reward + GAMMA * ~done * value[1:] - value[:-1]
    for step in reversed(range(STEPS - 1)):
        advantage[step] += GAMMA * LAMBDA * ~done[step] * advantage[step + 1]
    target, advantage = advantage + value[:-1], (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    for _ in range(UPDATES):
        chosen = agent(obs)
        ratio = (chosen.log_prob(action) - old).exp().squeeze(-1)
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        loss = 0.5 * (agent.value(obs).squeeze(-1) - target) ** 2 - gain
        optimizer.zero_grad()
        loss.mean().backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()


def train(frames: int = 400_000, seed: int = 0) -> Iterator[tuple[int, float]]:
    """Yield, after each rollout, the frames so far, and its mean reward as a part of the highest one."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the networks are too small to gain from more
    cartpoles = make_cartpoles(seconds=10)
    envs = arrayferry.wrap(cartpoles, "torch")  # the line to add
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
    obs = envs.reset(seed=seed)[0]["actor"]
    for count in range(ENVS * STEPS, frames + 1, ENVS * STEPS):
        rollout: list[Any] = []
        rewards: list[Any] = []
        for _ in range(STEPS):
            with torch.no_grad():
                action = agent(obs).sample()
            next_obs, reward, terminated, truncated, info = envs.step(action)
            rewards.append(reward)
            if (cut := truncated & ~terminated).any():  # these episodes would have gone on
                final_obs = info["final_obs"]["actor"]
                reward = reward + GAMMA * cut * agent.value(final_obs).squeeze(-1).detach()
            rollout.append((obs, action, reward, terminated | truncated))
            obs = next_obs["actor"]
        learn(agent, optimizer, obs, rollout)
        yield count, float(torch.stack(rewards).mean()) / cartpoles.step_dt


if __name__ == "__main__":
    rewards = [reward for _, reward in train(8192 if "--quick" in sys.argv else 400_000)]
    print(f"mean reward {rewards[0]:.2f} at first, {sum(rewards[-20:]) / len(rewards[-20:]):.2f} in the end")
