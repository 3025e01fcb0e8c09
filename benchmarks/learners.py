"""How many frames per second each learner collects and trains on, with and without arrayferry.

Without it, a learner has a single environment that is written in JAX (gymnax's CartPole), through gymnax's
own adapter and a conversion by hand; with it, the line of its page. The last row has equal batches: without
it, the same 64 environments in one compiled call, by hand too. Laps are interleaved; the best counts.

    python -W ignore benchmarks/learners.py [names] [--laps 3]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np

import arrayferry
from arrayferry.envs import as_gymnasium

ENVS = 64
Lap = Callable[[int], None]  # trains on so many frames


class ByHand(gym.Wrapper):  # type: ignore[type-arg]
    """What one writes without a library: NumPy arrays out of a single environment of JAX."""

    def reset(self, **kwargs: Any) -> Any:
        obs, info = self.env.reset(**kwargs)
        return np.asarray(obs), info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return np.asarray(obs), float(reward), bool(terminated), bool(truncated), info


def single() -> Any:
    import gymnax
    from gymnax.wrappers import GymnaxToGymWrapper

    return ByHand(GymnaxToGymWrapper(*gymnax.make("CartPole-v1")))


def vector() -> Any:
    import gymnax

    return as_gymnasium(gymnax.make("CartPole-v1"), ENVS)


def sb3(package: str = "stable_baselines3") -> tuple[Lap, Lap]:
    from importlib import import_module

    from arrayferry.learners import sb3_vec_env

    ppo = import_module(package).PPO
    options: dict[str, Any] = {"batch_size": 512, "n_epochs": 4, "device": "cpu"}
    alone = ppo("MlpPolicy", single(), n_steps=2048, **options)
    many = ppo("MlpPolicy", sb3_vec_env(vector()), n_steps=2048 // ENVS, **options)
    return alone.learn, many.learn


def torchrl() -> tuple[Lap, Lap]:
    from torchrl.envs import GymWrapper

    from arrayferry.learners import torchrl_env

    alone, many = GymWrapper(single()), torchrl_env(vector())
    return (
        lambda frames: alone.rollout(frames, break_when_any_done=False),
        lambda frames: many.rollout(frames // ENVS, break_when_any_done=False),
    )


def skrl(framework: str = "torch") -> tuple[Lap, Lap]:
    from importlib import import_module

    wrap_env = import_module(f"skrl.envs.wrappers.{framework}").wrap_env
    envs = wrap_env(single(), verbose=False), wrap_env(arrayferry.wrap(vector(), "numpy"), verbose=False)

    def lap(env: Any) -> Lap:
        action = arrayferry.convert(np.zeros((env.num_envs, 1), np.int64), framework)

        def steps(frames: int) -> None:
            env.reset()
            for _ in range(frames // env.num_envs):
                *_, terminated, truncated, _ = env.step(action)
                if env.num_envs == 1 and bool(terminated.item() or truncated.item()):
                    env.reset()

        return steps

    return lap(envs[0]), lap(envs[1])


def tianshou() -> tuple[Lap, Lap]:
    import gymnax
    from tianshou.env import DummyVectorEnv

    def lap(make: Any) -> Lap:
        envs = DummyVectorEnv([make] * 4)
        envs.reset()

        def steps(frames: int) -> None:
            for _ in range(frames // 4):
                _, _, terminated, truncated, _ = envs.step(np.zeros(4, np.int64))
                if len(over := np.flatnonzero(terminated | truncated)):
                    envs.reset(over)

        return steps

    return lap(single), lap(lambda: arrayferry.wrap(gymnax.make("CartPole-v1"), "numpy"))


def rsl_rl() -> tuple[Lap, Lap]:
    """rsl_rl takes no single environment: Gymnasium's own vector of single ones, and ours."""
    import torch
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
    from gymnasium.wrappers.vector import TransformAction

    from arrayferry.learners import rsl_rl_vec_env

    box = gym.spaces.Box

    def lap(envs: Any) -> Lap:
        count = envs.num_envs
        pushed = TransformAction(
            envs, lambda a: (a[:, 0] > 0).astype("int32"), box(-1, 1, (count, 1)), box(-1, 1, (1,))
        )
        view, action = rsl_rl_vec_env(pushed, seed=0), torch.zeros(count, 1)

        def steps(frames: int) -> None:
            for _ in range(frames // count):
                view.step(action)

        return steps

    return lap(SyncVectorEnv([single] * 4, autoreset_mode=AutoresetMode.SAME_STEP)), lap(vector())


def rllib() -> tuple[Lap, Lap]:
    import gymnax
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
    from ray.tune.registry import register_env

    def lap(name: str, make: Any) -> Lap:
        register_env(name, lambda config: make())
        config = PPOConfig().environment(name).env_runners(num_envs_per_env_runner=4)
        runner: Any = SingleAgentEnvRunner(config=config)
        return lambda frames: runner.sample(num_timesteps=frames, random_actions=True)

    with_us = lap("wrapped", lambda: arrayferry.wrap(gymnax.make("CartPole-v1"), "numpy"))
    return lap("by hand", single), with_us


def one_file(framework: str) -> tuple[Lap, Lap]:
    """Let a policy of the script's own choose the actions: it takes and returns the learner's arrays."""
    weights = arrayferry.convert(np.array([[0, 0], [0, 0], [-1, 1], [-1, 1]], np.float32), framework)

    def act(obs: Any) -> Any:
        return (obs @ weights).argmax(-1)

    alone, many = single(), vector()
    if framework == "torch":
        from torch import tensor as by_hand

        many = arrayferry.wrap(many, "torch")
    else:  # the environments have the learner's arrays already
        from jax import jit
        from jax.numpy import asarray as by_hand

        act = jit(act)

    def single_steps(frames: int) -> None:
        obs, _ = alone.reset()
        for _ in range(frames):
            obs, _, terminated, truncated, _ = alone.step(act(by_hand(obs)).item())
            if terminated or truncated:
                obs, _ = alone.reset()

    def vector_steps(frames: int) -> None:
        obs, _ = many.reset()
        for _ in range(frames // ENVS):
            obs, *_ = many.step(act(obs))

    return single_steps, vector_steps


def equal_batches() -> tuple[Lap, Lap]:
    """Batch and convert by hand, without final observations or checks; or with the line of the page."""
    import gymnax
    import jax
    import torch

    env, params = gymnax.make("CartPole-v1")
    weights = torch.tensor([[0, 0], [0, 0], [-1, 1], [-1, 1]], dtype=torch.float32)
    reset = jax.jit(lambda key: jax.vmap(env.reset, (0, None))(jax.random.split(key, ENVS), params))

    @jax.jit
    def step(key: Any, state: Any, action: Any) -> Any:
        key, now = jax.random.split(key)
        return key, jax.vmap(env.step, (0, 0, 0, None))(jax.random.split(now, ENVS), state, action, params)

    def to_torch(array: Any) -> Any:
        return torch.from_numpy(np.array(array))

    def by_hand(frames: int) -> None:
        key = jax.random.key(0)
        obs, state = reset(key)
        obs = to_torch(obs)
        for _ in range(frames // ENVS):
            key, (obs, state, *rest) = step(key, state, (obs @ weights).argmax(-1).numpy())
            obs, *_ = map(to_torch, (obs, *rest[:2]))

    return by_hand, one_file("torch")[1]


RUNS: dict[str, tuple[str, str, Callable[[], tuple[Lap, Lap]]]] = {
    "sb3": ("stable_baselines3", "PPO, trains", sb3),
    "sbx": ("sbx", "PPO, trains", lambda: sb3("sbx")),
    "torchrl": ("torchrl", "rollout, random actions", torchrl),
    "skrl-torch": ("skrl", "steps", skrl),
    "skrl-jax": ("skrl", "steps", lambda: skrl("jax")),
    "tianshou": ("tianshou", "steps of 4 environments", tianshou),
    "rsl_rl": ("rsl_rl", "steps", rsl_rl),
    "rllib": ("ray", "an env runner of 4 environments samples, random actions", rllib),
    "one-file-torch": ("torch", "steps, a policy acts", lambda: one_file("torch")),
    "one-file-jax": ("jax", "steps, a policy acts", lambda: one_file("jax")),
    "equal-batches": ("torch", "64 environments on both sides, a policy acts", equal_batches),
}
FRAMES = 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(RUNS))
    parser.add_argument("--laps", type=int, default=3)
    arguments = parser.parse_args()
    if find_spec("torch") is not None:
        import torch

        torch.set_num_threads(1)
    print("| learner | what runs | without, frames/s | with, frames/s | |\n|---|---|---|---|---|")
    for name in arguments.names:
        package, what, make = RUNS[name]
        if find_spec(package) is None:
            print(f"{name}: {package} is not installed", file=sys.stderr)
            continue
        without, with_us = make()
        few, many = FRAMES // 4 if name not in ("sb3", "sbx") else FRAMES, FRAMES * 8
        few = many if name == "equal-batches" else few
        without(few), with_us(FRAMES)  # warm up
        best = [0.0, 0.0]
        for _ in range(arguments.laps):
            for index, (lap, frames) in enumerate([(without, few), (with_us, many)]):
                start = time.perf_counter()
                lap(frames)
                best[index] = max(best[index], frames / (time.perf_counter() - start))
        print(f"| {name} | {what} | {best[0]:,.0f} | {best[1]:,.0f} | {best[1] / best[0]:.1f}x |", flush=True)


if __name__ == "__main__":
    main()
