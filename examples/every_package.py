"""Step environments of every installed package from torch, each wrapped by the same line.

pip install "arrayferry[torch,jax-envs]"     # and dm_control, minigrid, mo-gymnasium, ... as you like
python examples/every_package.py [--quick] [PACKAGE ...]
"""

import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import gymnasium as gym

import arrayferry

ON_CPU = {"config_overrides": {"impl": "jax"}}  # instead of Warp, which is for GPUs

# A package, how it makes an environment, and how many to step together: None for one.
PACKAGES: dict[str, tuple[Callable[[Any], Any], int | None]] = {
    "gymnasium": (lambda package: package.make_vec("CartPole-v1", num_envs=16), None),
    "gymnax": (lambda package: package.make("CartPole-v1"), 256),
    "brax.envs": (lambda package: package.get_environment("inverted_pendulum"), 256),
    "mujoco_playground": (lambda package: package.registry.load("CartpoleBalance", **ON_CPU), 16),
    "jumanji": (lambda package: package.make("Snake-v1"), 256),
    "pgx": (lambda package: package.make("tic_tac_toe"), 256),
    "xminigrid": (lambda package: package.make("MiniGrid-Empty-8x8"), 256),
    "jaxmarl": (lambda package: package.make("MPE_simple_spread_v3"), None),
    "mpe2": (lambda package: import_module("mpe2.simple_spread_v3").parallel_env(), None),
    "dm_control.suite": (lambda package: package.load("cartpole", "balance"), None),
    "minigrid": (lambda package: gym.make("MiniGrid-Empty-8x8-v0"), None),
    "mo_gymnasium": (lambda package: package.make("minecart-v0"), None),
    "highway_env": (lambda package: gym.make("highway-v0"), None),
}


def actions(env: Any) -> Any:
    """Return random actions, one for each agent if there are many."""
    if hasattr(env, "possible_agents"):
        return {agent: env.action_space(agent).sample() for agent in env.agents}
    return env.action_space.sample()


def step_through(name: str, steps: int) -> str:
    """Make an environment, wrap it for torch, and step it; return what it measured."""
    make, num_envs = PACKAGES[name]
    together: Any = {} if num_envs is None else {"num_envs": num_envs}
    env: Any = arrayferry.wrap(make(import_module(name)), "torch", spaces="target", **together)
    obs, _ = env.reset(seed=0)
    env.step(actions(env))  # JAX compiles the first step
    kind, begin = type(obs).__name__, time.perf_counter()
    for _ in range(steps):
        obs, _, terminated, truncated, _ = env.step(actions(env))
        if getattr(env, "agents", None) == [] or terminated is True or truncated is True:
            env.reset()
    count = steps * getattr(env, "num_envs", 1)
    return f"{type(env).__name__:24} {kind:10} {count / (time.perf_counter() - begin):12,.0f} steps/s"


if __name__ == "__main__":
    chosen = [name for name in sys.argv[1:] if name in PACKAGES] or [*PACKAGES]
    for name in chosen:
        if find_spec(name.partition(".")[0]) is not None:
            print(f"{name:20} {step_through(name, 5 if '--quick' in sys.argv else 200)}", flush=True)
