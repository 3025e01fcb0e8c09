"""Train a PyTorch agent on CartPole, a NumPy environment: PPO in one file, in CleanRL's style [--quick]."""

import sys
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import torch
from torch import distributions, nn

import arrayferry

ENVS, STEPS, UPDATES, GAMMA, LAMBDA, CLIP = 16, 64, 16, 0.99, 0.95, 0.2


def learn(policy: nn.Module, critic: nn.Module, optimizer: Any, last_obs: Any, rollout: list[Any]) -> None:
    """Improve the policy and the critic on a rollout, whose steps are (obs, action, reward, done)."""
    obs, action, reward, done = map(torch.stack, zip(*rollout))
    old = distributions.Categorical(logits=policy(obs)).log_prob(action).detach()
    value = critic(torch.cat([obs, last_obs[None]])).squeeze(-1).detach()
    advantage = reward + GAMMA * ~done * value[1:] - value[:-1]
    for step in reversed(range(STEPS - 1)):
        advantage[step] += GAMMA * LAMBDA * ~done[step] * advantage[step + 1]
    target, advantage = advantage + value[:-1], (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    for _ in range(UPDATES):
        chosen = distributions.Categorical(logits=policy(obs))
        ratio = (chosen.log_prob(action) - old).exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        loss = 0.5 * (critic(obs).squeeze(-1) - target) ** 2 - gain - 0.005 * chosen.entropy()
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()


def train(frames: int = 100_000, seed: int = 0) -> Iterator[tuple[int, float, nn.Module]]:
    """Yield, after each rollout, the frames so far, the mean return of 20 episodes, and the policy."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the networks are too small to gain from more
    envs: Any = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS, autoreset_mode="SameStep")
    envs = arrayferry.wrap(envs, "torch", dense_final=True)  # the line to add
    envs = arrayferry.wrappers.vector.RecordEpisodeStatistics(envs, buffer_length=20)
    policy, critic = (nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, n)) for n in (2, 1))
    optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=3e-3)
    obs, _ = envs.reset(seed=seed)
    for count in range(ENVS * STEPS, frames + 1, ENVS * STEPS):
        rollout = []
        for _ in range(STEPS):
            action = distributions.Categorical(logits=policy(obs)).sample()
            next_obs, reward, terminated, truncated, info = envs.step(action)
            if (cut := truncated & ~terminated).any():  # these episodes would have gone on
                reward = reward + GAMMA * cut * critic(info["final_obs"]).squeeze(-1).detach()
            rollout.append((obs, action, reward, terminated | truncated))
            obs = next_obs
        learn(policy, critic, optimizer, obs, rollout)
        yield count, sum(map(float, envs.return_queue)) / max(1, len(envs.return_queue)), policy


if __name__ == "__main__":
    returns = [mean_return for _, mean_return, _ in train(8192 if "--quick" in sys.argv else 100_000)]
    print(f"mean return {returns[-1]:.0f}")
