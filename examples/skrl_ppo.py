"""Train skrl's PPO, in torch or in JAX, on 64 CartPoles of gymnax, which are written in JAX.

    pip install "arrayferry[skrl,torch,gymnax]"
    python examples/skrl_ppo.py [--jax] [--quick]

It prints the mean return of the last episodes.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import gymnax

import arrayferry
from arrayferry.wrappers.vector import RecordEpisodeStatistics

ENVS, STEPS = 64, 32


def train(frames: int = 400_000, seed: int = 0, framework: str = "torch") -> float:
    """Return the mean return of the last 100 episodes."""

    def skrl(module: str, name: str) -> Any:
        return getattr(import_module(f"skrl.{module.format(framework)}"), name)

    import_module("skrl.utils").set_seed(seed)
    view = arrayferry.wrap(gymnax.make("CartPole-v1"), "numpy", num_envs=ENVS)  # the line to add
    counted = RecordEpisodeStatistics(view, buffer_length=100)
    envs = skrl("envs.wrappers.{}", "wrap_env")(counted)
    spaces = {"observation_space": envs.observation_space, "action_space": envs.action_space}
    net = [{"name": "net", "input": "OBSERVATIONS", "layers": [64, 64], "activations": "tanh"}]
    models = {
        role: skrl("utils.model_instantiators.{}", name)(
            **spaces, device=envs.device, network=net, output=output
        )
        for role, name, output in (
            ("policy", "categorical_model", "ACTIONS"),
            ("value", "deterministic_model", "ONE"),
        )
    }
    if framework == "jax":
        for role, model in models.items():
            model.init_state_dict(role=role)
    memory = skrl("memories.{}", "RandomMemory")(memory_size=STEPS, num_envs=ENVS, device=envs.device)
    cfg: dict[str, Any] = {"rollouts": STEPS, "learning_epochs": 4, "mini_batches": 4, "learning_rate": 1e-3}
    cfg |= {"experiment": {"write_interval": 0, "checkpoint_interval": 0}}
    agent = skrl("agents.{}.ppo", "PPO")(models=models, memory=memory, cfg=cfg, device=envs.device, **spaces)
    cfg = {"timesteps": frames // ENVS, "headless": True, "disable_progressbar": True}
    skrl("trainers.{}", "SequentialTrainer")(env=envs, agents=agent, cfg=cfg).train()
    return float(sum(counted.return_queue) / max(1, len(counted.return_queue)))


if __name__ == "__main__":
    framework = "jax" if "--jax" in sys.argv else "torch"
    print(f"mean return {train(8192 if '--quick' in sys.argv else 400_000, framework=framework):.0f}")
