"""Double buffering: while the agent learns from one half of the environments, the other half steps.

    python examples/double_buffering.py

The environments are in worker processes. `step_async` starts a step and returns at once; `step_wait` waits
for it. A one-step actor-critic learns from each half as it arrives.
"""

import argparse
import time
from typing import Any

import gymnasium as gym
import torch
from torch import nn

import arrayferry
from arrayferry.scale import ProcessVectorEnv

NUM_ENVS, GAMMA = 8, 0.99


def learn(net: nn.Module, optimizer: torch.optim.Optimizer, before: Any, step: Any) -> None:
    """Learn from one step of each environment; one that begins an episode is not a transition."""
    (obs, action, was_over), (new_obs, reward, terminated, _, info) = before, step
    logits, value = net(obs).split([2, 1], dim=-1)
    with torch.no_grad():
        target = reward + GAMMA * ~terminated * net(new_obs)[:, 2]
    log_prob = torch.distributions.Categorical(logits=logits).log_prob(action)
    advantage = target - value[:, 0]
    is_lost = info.get("fault", torch.zeros_like(was_over))  # its worker has died
    loss = (advantage**2 - log_prob * advantage.detach())[~(was_over | is_lost)].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main() -> None:
    """Let the two halves take turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    steps = 100 if parser.parse_args().quick else 2000
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    env_fns = [lambda: gym.make("CartPole-v1")] * NUM_ENVS
    halves: list[Any] = [
        arrayferry.wrap(ProcessVectorEnv(env_fns, workers=1), "torch", reward_dtype="float32")
        for _ in range(2)
    ]
    waiting: dict[int, Any] = {}
    begin = time.perf_counter()

    def act(half: int, obs: torch.Tensor, is_over: torch.Tensor) -> None:
        action = torch.distributions.Categorical(logits=net(obs)[:, :2]).sample()
        waiting[half] = obs, action, is_over
        halves[half].step_async(action)

    for half, envs in enumerate(halves):
        act(half, envs.reset(seed=half)[0], torch.zeros(NUM_ENVS, dtype=torch.bool))
    for _ in range(steps):
        for half, envs in enumerate(halves):
            before, step = waiting[half], envs.step_wait()
            act(half, step[0], step[2] | step[3])  # it steps while we learn
            learn(net, optimizer, before, step)
    for envs in halves:
        envs.step_wait()
        envs.close()
    count = 2 * NUM_ENVS * steps
    print(f"{count:,} steps, {count / (time.perf_counter() - begin):,.0f} a second")


if __name__ == "__main__":
    main()
