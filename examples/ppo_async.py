"""Train PPO on the first environments that are ready, instead of waiting for the slowest [--quick].

The environments are in worker processes. Nobody waits for those that take longer than others, and every
transition is still that of its own environment.
"""

import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

import arrayferry
from arrayferry.scale import ProcessVectorEnv

ENVS, BATCH, FRAMES, UPDATES, GAMMA, LAMBDA, CLIP = 16, 8, 1024, 16, 0.99, 0.95, 0.2


class Uneven(gym.Wrapper[Any, Any, Any, Any]):
    """Takes ten times as long for some steps, as simulators do."""

    def step(self, action: Any) -> Any:
        """Step, after a while."""
        time.sleep(0.003 if random.random() < 0.1 else 0.0003)
        return self.env.step(action)


def make() -> Any:
    """Return vector environments of which `recv` returns the first `BATCH` that are ready."""
    env_fns = [lambda: Uneven(gym.make("CartPole-v1"))] * ENVS
    envs = ProcessVectorEnv(env_fns, workers=ENVS, batch_size=BATCH, autoreset_mode="SameStep")
    return arrayferry.wrap(envs, "torch", reward_dtype="float32", dense_final=True)


def learn(policy: nn.Module, critic: nn.Module, optimizer: Any, paths: list[list[Any]]) -> None:
    """Improve both on the path of each environment, in steps of (obs, action, log, reward, over, next)."""
    batches = []
    for path in filter(None, paths):
        obs, action, old, reward, over, new = map(torch.stack, zip(*path))
        with torch.no_grad():
            value, next_value = critic(obs).squeeze(-1), critic(new).squeeze(-1)
        terminated, done = over.unbind(-1)
        advantage = reward + GAMMA * ~terminated * next_value - value
        for step in reversed(range(len(path) - 1)):
            advantage[step] += GAMMA * LAMBDA * ~done[step] * advantage[step + 1]
        batches.append((obs, action, old, advantage, advantage + value))
    obs, action, old, advantage, target = map(torch.cat, zip(*batches))
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    for _ in range(UPDATES):
        chosen = Categorical(logits=policy(obs))
        ratio = (chosen.log_prob(action) - old).exp()
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        loss = 0.5 * (critic(obs).squeeze(-1) - target) ** 2 - gain - 0.005 * chosen.entropy()
        optimizer.zero_grad()
        loss.mean().backward()
        optimizer.step()


def train(frames: int = 100_000, seed: int = 0) -> Iterator[tuple[int, float, Any]]:
    """Yield, after each update, the frames so far, the mean return of 20 episodes, and who has waited."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the networks are too small to gain from more
    policy, critic = (nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, n)) for n in (2, 1))
    optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=3e-3)
    asked: Any = [None] * ENVS  # the observation, the action and its log probability
    paths: Any = [[] for _ in range(ENVS)]
    score, returns, count, updates, envs = [0.0] * ENVS, [0.0], 0, 0, make()
    envs.async_reset(seed=seed)
    while updates < frames // FRAMES:
        obs, reward, terminated, truncated, info = envs.recv()
        done, lost = terminated | truncated, info.get("fault", torch.zeros(len(obs), dtype=torch.bool))
        new = torch.where(done[:, None], info["final_obs"], obs) if done.any() else obs
        for place, index in enumerate(info["env_id"].tolist()):
            if asked[index] is not None and not lost[place]:  # the first observation is no transition
                over = torch.stack([terminated[place], done[place]])
                paths[index].append((*asked[index], reward[place], over, new[place]))
                count, score[index] = count + 1, score[index] + float(reward[place])
            if done[place]:
                returns, score[index] = [*returns[-19:], score[index]], 0.0
        with torch.no_grad():
            chosen = Categorical(logits=policy(obs))
            action = chosen.sample()
        for place, index in enumerate(info["env_id"].tolist()):
            asked[index] = obs[place], action[place], chosen.log_prob(action)[place]
        envs.send(action, info["env_id"])
        if count >= FRAMES * (updates + 1):
            learn(policy, critic, optimizer, paths)  # while the others step
            paths, updates = [[] for _ in range(ENVS)], updates + 1
            yield count, sum(returns) / len(returns), envs.wait_times()
    envs.close()


if __name__ == "__main__":
    *_, (count, mean_return, waits) = train(4096 if "--quick" in sys.argv else 100_000)
    print(f"mean return {mean_return:.0f}; of {waits.total:.2f} s, the learner waited {waits.learner:.2f} s")
