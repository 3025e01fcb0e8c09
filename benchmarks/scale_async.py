"""What it saves not to wait for slow environments: the first k of n, beside all, and TorchRL's pool.

Run `python benchmarks/scale_async.py`. All of them in turn, lap by lap, with environments of their own that
sleep, so that the cores do not decide: 1 ms a step, and 200 ms to reset after 200 steps. TorchRL's pool
takes part if it is installed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

from arrayferry.scale import ProcessVectorEnv

STEP, RESET, LENGTH = 0.001, 0.2, 200
CEILING = LENGTH / (LENGTH * STEP + RESET)  # frames of one environment per second
Lap = Callable[[float], "tuple[int, float]"]  # takes seconds; returns rows, and the caller's CPU seconds


class Sleeps(gym.Env[Any, Any]):
    """Sleeps in each step, and longer in each reset but the first; the first episode has any length."""

    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)
    count = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        time.sleep(RESET if self.count >= 0 else 0)
        self.count = 0 if self.count >= 0 else int(self.np_random.integers(LENGTH))
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> Any:
        time.sleep(STEP)
        self.count += 1
        return np.zeros(4, np.float32), 1.0, self.count >= LENGTH, False, {}


def first_ready(env_fn: Callable[[], Any], count: int, workers: int, batch_size: int) -> tuple[Any, Lap]:
    envs = ProcessVectorEnv(
        [env_fn] * count, workers=workers, batch_size=batch_size, autoreset_mode="SameStep"
    )
    envs.async_reset(seed=0)
    actions = np.zeros(batch_size, np.int64)

    def lap(seconds: float) -> tuple[int, float]:
        rows, end, cpu = 0, time.perf_counter() + seconds, time.thread_time()
        while time.perf_counter() < end:
            *_, info = envs.recv()
            envs.send(actions, info["env_id"])
            rows += batch_size
        return rows, time.thread_time() - cpu

    return envs, lap


def all_of_them(env_fn: Callable[[], Any], count: int, workers: int) -> tuple[Any, Lap]:
    envs = ProcessVectorEnv([env_fn] * count, workers=workers, autoreset_mode="SameStep")
    envs.reset(seed=0)
    actions = np.zeros(count, np.int64)

    def lap(seconds: float) -> tuple[int, float]:
        rows, end, cpu = 0, time.perf_counter() + seconds, time.thread_time()
        while time.perf_counter() < end:
            envs.step(actions)
            rows += count
        return rows, time.thread_time() - cpu

    return envs, lap


def torchrl_pool(env_fn: Callable[[], Any], count: int, batch_size: int) -> tuple[Any, Lap]:
    import torch
    from torchrl.envs import AsyncEnvPool, GymWrapper

    actions = torch.nn.functional.one_hot(torch.zeros(count, dtype=torch.int64), 2)
    envs = AsyncEnvPool([partial(_wrapped, GymWrapper, env_fn)] * count, backend="multiprocessing")
    envs.async_reset_send(envs.reset())
    state = {"ready": envs.async_reset_recv(min_get=batch_size)}

    def lap(seconds: float) -> tuple[int, float]:
        rows, end, cpu = 0, time.perf_counter() + seconds, time.thread_time()
        while time.perf_counter() < end:
            data = state["ready"].set("action", actions[: state["ready"].numel()])
            rows += data.numel()
            envs.async_step_and_maybe_reset_send(data)
            _, state["ready"] = envs.async_step_and_maybe_reset_recv(min_get=batch_size)
        return rows, time.thread_time() - cpu

    return envs, lap


def _wrapped(wrapper: Any, env_fn: Callable[[], Any]) -> Any:
    return wrapper(env_fn())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    cartpole = partial(gym.make, "CartPole-v1")
    rivals: dict[str, Callable[[], tuple[Any, Lap]]] = {
        "32 that sleep, the first 8": lambda: first_ready(Sleeps, 32, 32, 8),
        "32 that sleep, all": lambda: all_of_them(Sleeps, 32, 32),
        "32 that sleep, TorchRL's AsyncEnvPool, 8": lambda: torchrl_pool(Sleeps, 32, 8),
        "8 CartPoles, 2 workers, the first 4": lambda: first_ready(cartpole, 8, 2, 4),
        "8 CartPoles, 2 workers, all": lambda: all_of_them(cartpole, 8, 2),
    }
    made = {}
    for name, make in rivals.items():
        with suppress(ImportError):
            made[name] = make()
    sums = {name: [0.0, 0.0] for name in made}
    best = dict.fromkeys(made, 0.0)
    for _ in range(arguments.laps):
        for name, (_, lap) in made.items():
            start = time.perf_counter()
            rows, cpu = lap(arguments.seconds)
            best[name] = max(best[name], rows / (time.perf_counter() - start))
            sums[name] = [sums[name][0] + rows, sums[name][1] + cpu]
    table = Table(title=f"of {arguments.laps} laps; the ceiling of those that sleep is {32 * CEILING:,.0f}")
    for heading in ("", "rows/s, best lap", "caller's CPU, µs a row"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, (rows, cpu) in sums.items():
        table.add_row(name, f"{best[name]:,.0f}", f"{1e6 * cpu / rows:.1f}")
    Console().print(table, f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    for envs, _ in made.values():
        envs.close()


if __name__ == "__main__":
    main()
