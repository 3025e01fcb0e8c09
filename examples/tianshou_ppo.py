"""Train tianshou's PPO on CartPoles of gymnax, which are written in JAX.

    pip install "arrayferry[tianshou,gymnax]"
    python examples/tianshou_ppo.py [--quick]

It prints the mean return of the last episodes.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import gymnax
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

import arrayferry

ENVS, STEPS = 8, 2048


def make() -> Any:
    """Return an environment of NumPy arrays, which tianshou stacks and stores."""
    return arrayferry.wrap(gymnax.make("CartPole-v1"), "numpy")  # the line to add


def train(frames: int = 100_000, seed: int = 0) -> float:
    """Return the mean return of some test episodes."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs, tests = (DummyVectorEnv([make] * count) for count in (ENVS, 4))
    envs.seed(seed)
    net = partial(Net, state_shape=(4,), hidden_sizes=[64, 64])
    actor, critic = DiscreteActor(preprocess_net=net(), action_shape=2), DiscreteCritic(preprocess_net=net())
    policy = DiscreteActorPolicy(actor=actor, action_space=envs.action_space[0], deterministic_eval=True)
    algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-3), max_grad_norm=0.5)
    params = OnPolicyTrainerParams(
        training_collector=Collector(policy, envs, VectorReplayBuffer(STEPS, ENVS)),
        max_epochs=1,
        epoch_num_steps=frames,
        collection_step_num_env_steps=STEPS,
        update_step_num_repetitions=6,
        batch_size=128,
        show_progress=False,
    )
    algorithm.run_training(params)
    return float(Collector(policy, tests).collect(n_episode=8, reset_before_collect=True).returns.mean())


if __name__ == "__main__":
    print(f"mean return {train(2048 if '--quick' in sys.argv else 100_000):.0f}")
