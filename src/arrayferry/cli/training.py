"""A small agent in PyTorch that learns CartPole: proximal policy optimisation, as short as it gets.

It knows nothing of arrays other than torch's: `arrayferry.wrap` gives it tensors and takes them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium as gym

import arrayferry

if TYPE_CHECKING:
    import torch

__all__ = ["Progress", "train"]

ENVS, STEPS = 16, 64  # of one rollout
EPOCHS, BATCHES = 6, 4  # over it
GAMMA, LAMBDA, CLIP, ENTROPY, RATE = 0.99, 0.95, 0.2, 0.005, 3e-3
RECENT = 20  # episodes that the mean return is taken over


@dataclass
class Progress:
    """How far it got: after each rollout, the seconds, the steps and the mean return of late."""

    policy: Any
    seconds: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)

    @property
    def mean_return(self) -> float:
        """Of the last episodes; 0 before there were enough."""
        return self.returns[-1] if self.returns else 0.0


def train(goal: float, limit: float, seed: int = 0) -> Iterator[Progress]:
    """Learn until the mean return passes the goal, or the seconds are over; tell after each rollout."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the networks are too small for more
    torch.manual_seed(seed)
    envs: Any = arrayferry.wrap(gym.make_vec("CartPole-v1", num_envs=ENVS), "torch")
    policy, value = _network(4, 2), _network(4, 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=RATE)
    progress, start, finished = Progress(policy), time.monotonic(), deque[float](maxlen=RECENT)
    obs, _ = envs.reset(seed=seed)
    running, over = torch.zeros(ENVS), torch.zeros(ENVS, dtype=torch.bool)
    try:
        while progress.mean_return < goal and time.monotonic() - start < limit:
            rollout = []
            for _ in range(STEPS):
                action = torch.distributions.Categorical(logits=policy(obs)).sample()
                new, reward, terminated, truncated, _ = envs.step(action)
                # The step after an episode's end only resets: nothing is to be learned from it.
                rollout.append((obs, action, reward, terminated, truncated, ~over))
                running = torch.where(over, 0.0, running + reward)
                over = terminated | truncated
                finished.extend(running[over].tolist())
                obs = new
            _learn(policy, value, optimizer, obs, *(torch.stack(column) for column in zip(*rollout)))
            progress.seconds.append(time.monotonic() - start)
            progress.steps.append((len(progress.steps) + 1) * ENVS * STEPS)
            progress.returns.append(sum(finished) / RECENT if len(finished) == RECENT else 0.0)
            yield progress
    finally:
        envs.close()
        torch.set_num_threads(threads)


def _network(inputs: int, outputs: int) -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(inputs, 64), torch.nn.Tanh(), torch.nn.Linear(64, outputs))


def _learn(
    policy: Any,
    value: Any,
    optimizer: torch.optim.Optimizer,
    last: torch.Tensor,
    obs: torch.Tensor,
    action: torch.Tensor,
    reward: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor,
    valid: torch.Tensor,
) -> None:
    """Improve the policy and the value on one rollout, of which some steps are not valid."""
    import torch

    with torch.no_grad():
        values = value(torch.cat([obs, last[None]])).squeeze(-1)
        old = _log_probability(policy, obs, action)
        advantage, later = torch.zeros_like(reward), torch.zeros(ENVS)
        for t in reversed(range(STEPS)):
            # In a step that ends an episode, the next observation is the episode's own last one.
            error = reward[t] + GAMMA * values[t + 1] * ~terminated[t] - values[t]
            later = error + GAMMA * LAMBDA * later * ~(terminated[t] | truncated[t])
            advantage[t] = later
        target = advantage + values[:-1]
    data = [column[valid] for column in (obs, action, old, advantage, target)]
    data[3] = (data[3] - data[3].mean()) / (data[3].std() + 1e-8)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(data[0])).chunk(BATCHES):
            obs_, action_, old_, advantage_, target_ = (column[chosen] for column in data)
            chances = torch.distributions.Categorical(logits=policy(obs_))
            ratio = (chances.log_prob(action_) - old_).exp()
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            gain = torch.minimum(ratio * advantage_, clipped * advantage_).mean()
            loss = (value(obs_).squeeze(-1) - target_).square().mean()
            optimizer.zero_grad()
            (0.5 * loss - gain - ENTROPY * chances.entropy().mean()).backward()
            torch.nn.utils.clip_grad_norm_([*policy.parameters(), *value.parameters()], 0.5)
            optimizer.step()


def _log_probability(policy: Any, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    import torch

    found: torch.Tensor = torch.distributions.Categorical(logits=policy(obs)).log_prob(action)
    return found
