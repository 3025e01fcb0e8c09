"""What worker processes save: a step of Gymnasium's vector environments, and of ours.

Run `make bench NAME=scale`. All of them in turn, lap by lap; the fastest lap of each counts, since the
machine's noise only ever adds. The bound is what the environments' own steps take, spread over the workers.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from bars import svg
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from measure import measure
from rich.console import Console
from rich.progress import track
from rich.table import Table

from arrayferry.scale import ProcessVectorEnv


class Busy(gym.Env[Any, Any]):
    """Computes for some microseconds, and shows the same observation and infos in each step."""

    action_space = spaces.Discrete(2)

    def __init__(self, shape: tuple[int, ...] = (4,), microseconds: float = 0, infos: int = 0) -> None:
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.obs, self.seconds = np.zeros(shape, np.uint8), microseconds / 1e6
        self.infos = {f"key {number}": float(number) for number in range(infos)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.obs, {}

    def step(self, action: Any) -> Any:
        end = perf_counter() + self.seconds
        while perf_counter() < end:
            pass
        return self.obs, 1.0, False, False, self.infos


CARTPOLE = partial(gym.make, "CartPole-v1")
IMAGE = (84, 84, 4)  # 28 KB

DRAWN = "200 µs"
PICTURE = Path(__file__).resolve().parent.parent / "docs/images/scale.svg"

CASES: dict[str, tuple[Callable[[], gym.Env[Any, Any]], int]] = {
    "CartPole": (CARTPOLE, 8),
    "28 KB, no work": (partial(Busy, IMAGE), 32),
    "10 µs": (partial(Busy, (4,), 10), 8),
    "50 µs": (partial(Busy, (4,), 50), 8),
    DRAWN: (partial(Busy, (4,), 200), 8),
    "1 ms": (partial(Busy, (4,), 1000), 8),
    "5 ms": (partial(Busy, (4,), 5000), 8),
    "50 µs, 8 infos": (partial(Busy, (4,), 50, 8), 8),
}


class Row(NamedTuple):
    """Microseconds a step of each, and of the caller's processor for each environment."""

    bound: float
    sync: float
    asynchronous: float
    ours: float
    cpu_async: float
    cpu_ours: float


def measure_case(env_fn: Callable[[], Any], num_envs: int, workers: int, laps: int) -> Row:
    """Let the three step in turn."""
    env_fns, actions = [env_fn] * num_envs, np.zeros(num_envs, np.int64)
    with ExitStack() as stack:
        env = env_fn()
        env.reset(seed=0)
        vectors: list[VectorEnv[Any, Any, Any]] = [
            SyncVectorEnv(env_fns),
            AsyncVectorEnv(env_fns, context="forkserver"),
            ProcessVectorEnv(env_fns, workers=workers),
        ]
        for envs in vectors:
            stack.callback(envs.close)
            envs.reset(seed=0)
        steps = {str(index): partial(envs.step, actions) for index, envs in enumerate(vectors)}
        best = measure({"bare": partial(step_alone, env), **steps}, laps, 0.004)
        cpu = [min(cpu_of(step) for _ in range(laps)) for step in list(steps.values())[1:]]
    bound = best.pop("bare") * -(-num_envs // workers)
    return Row(*(1e6 * one for one in (bound, *best.values(), *(one / num_envs for one in cpu))))


def step_alone(env: Any) -> None:
    _, _, terminated, truncated, _ = env.step(0)
    if terminated or truncated:
        env.reset()


def cpu_of(step: Callable[[], Any], count: int = 20) -> float:
    """Return the seconds of this thread's processor that a step takes."""
    start = thread_time()
    for _ in range(count):
        step()
    return (thread_time() - start) / count


def draw_case(found: Row) -> None:
    """Put a picture of it into the docs."""
    times = {
        "SyncVectorEnv": found.sync,
        "AsyncVectorEnv": found.asynchronous,
        "ProcessVectorEnv": found.ours,
    }
    title = "8 environments that take 200 µs each: microseconds a step"
    PICTURE.write_text(svg(title, times, found.bound, "ProcessVectorEnv", left=160, digits=0))


def rows(cases: list[str], workers: int, laps: int, draw: bool) -> Iterator[tuple[str, ...]]:
    for name in track(cases, "measuring"):
        env_fn, num_envs = CASES[name]
        found = measure_case(env_fn, num_envs, workers, laps)
        if name == DRAWN and draw:
            draw_case(found)
        ratios = found.asynchronous / found.ours, found.sync / found.ours
        numbers = *(f"{one:,.0f}" for one in found[:4]), *(f"{one:.1f}" for one in (*ratios, *found[4:]))
        yield f"{name} x {num_envs}", *numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--laps", type=int, default=60)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--publish", action="store_true", help="put the picture into the docs")
    arguments = parser.parse_args()
    table = Table(title=f"µs a step, {arguments.workers} workers; CPU: the caller's, µs an environment")
    for heading in ("", "bound", "Sync", "Async", "ours", "Async/ours", "Sync/ours", "CPU Async", "CPU ours"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows(arguments.cases, arguments.workers, arguments.laps, arguments.publish):
        table.add_row(*row)
    console = Console()
    console.print(table)
    load = os.getloadavg()[0]
    console.print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")


if __name__ == "__main__":
    main()
