"""How much a wrapper adds to a step: the bare environment, a hand-written line, Gymnasium's wrapper, ours.

Run `make bench`. All rivals of a work run in one process, lap by lap in turn, and the fastest lap counts:
the machine's noise only ever adds. A rival's overhead is its time less that of the bare environment.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import torch
from gymnasium import spaces
from rich.console import Console
from rich.progress import track
from rich.table import Table

import arrayferry

Step = Callable[[], Any]


class Toy(gym.Env[Any, Any]):
    """Does nothing but make a new observation, as most environments do."""

    action_space = spaces.Discrete(2)

    def __init__(self, leaves: int) -> None:
        box = spaces.Box(-1, 1, (4,))
        self.leaves = leaves
        self.observation_space = spaces.Dict({f"k{i}": box for i in range(leaves)}) if leaves else box

    def observe(self) -> Any:
        if not self.leaves:
            return np.empty(4, np.float32)
        return {f"k{i}": np.empty(4, np.float32) for i in range(self.leaves)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        return self.observe(), 1.0, False, False, {}


class ToyVector(gym.vector.VectorEnv[Any, Any, Any]):
    """Sixty-four of them, in one batch."""

    num_envs = 64

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape_, self.dtype_ = shape, dtype
        self.single_observation_space = spaces.Box(0, 1, shape, dtype)
        self.observation_space = spaces.Box(0, 1, (64, *shape), dtype)
        self.single_action_space, self.action_space = spaces.Discrete(2), spaces.MultiDiscrete([2] * 64)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.empty((64, *self.shape_), self.dtype_), {}

    def step(self, actions: Any) -> Any:
        obs = np.empty((64, *self.shape_), self.dtype_)
        return obs, np.ones(64), np.zeros(64, bool), np.zeros(64, bool), {}


def by_hand(env: Any, convert: Callable[[Any], Any], *, vector: bool) -> Step:
    """What an expert writes: one call a leaf, and nothing else."""
    action = torch.zeros(64, dtype=torch.int64) if vector else torch.tensor(1)

    def leaves(obs: Any) -> Any:
        return {k: convert(v) for k, v in obs.items()} if isinstance(obs, dict) else convert(obs)

    def step() -> Any:
        choice = action.numpy() if vector else action.item()
        obs, reward, terminated, truncated, info = env.step(choice)
        if vector:
            return convert(obs), convert(reward), convert(terminated), convert(truncated), info
        return leaves(obs), float(reward), bool(terminated), bool(truncated), info

    return step


def rivals(make: Callable[[], Any], to: str, *, vector: bool = False) -> dict[str, Step]:
    """The four, each with an environment of its own."""
    action = arrayferry.convert(np.zeros(64, np.int64) if vector else np.int64(1), to)
    bare_action = np.zeros(64, np.int64) if vector else 1
    module = {"torch": torch, "jax": jnp}[to]
    theirs = (gym.wrappers.vector if vector else gym.wrappers).ArrayConversion
    envs = {
        "Gymnasium": theirs(make(), env_xp=np, target_xp=module),
        "arrayferry": arrayferry.wrap(make(), to),
    }
    for env in envs.values():
        env.reset(seed=0)
    bare = make()
    hand = by_hand(make(), {"torch": torch.from_numpy, "jax": jnp.asarray}[to], vector=vector)
    steps: dict[str, Step] = {"bare": lambda: bare.step(bare_action), "by hand": hand}
    return steps | {name: lambda env=env: env.step(action) for name, env in envs.items()}  # type: ignore[misc]


WORKS: dict[str, Callable[[], dict[str, Step]]] = {
    "NumPy to torch, Box(4)": lambda: rivals(lambda: Toy(0), "torch"),
    "NumPy to torch, Dict of 8": lambda: rivals(lambda: Toy(8), "torch"),
    "NumPy to JAX, Box(4)": lambda: rivals(lambda: Toy(0), "jax"),
    "NumPy to JAX, Dict of 8": lambda: rivals(lambda: Toy(8), "jax"),
    "vector of 64, NumPy to torch, (64, 4)": lambda: rivals(
        lambda: ToyVector((4,), np.float32), "torch", vector=True
    ),
    "vector of 64, NumPy to torch, 64 x 84x84x4 uint8": lambda: rivals(
        lambda: ToyVector((84, 84, 4), np.uint8), "torch", vector=True
    ),
    "vector of 64, NumPy to JAX, (64, 4)": lambda: rivals(
        lambda: ToyVector((4,), np.float32), "jax", vector=True
    ),
}


def measure(steps: dict[str, Step], laps: int, seconds: float) -> dict[str, float]:
    """The fastest lap of each, in microseconds a step."""
    for step in steps.values():
        for _ in range(20):
            step()
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(laps):
        for name, step in steps.items():
            best[name] = min(best[name], lap(step, seconds))
    return {name: value * 1e6 for name, value in best.items()}


def lap(step: Step, seconds: float) -> float:
    """Seconds a step, over about that many seconds."""
    gc.collect()
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        for _ in range(10):
            step()
        count += 10
    return spent / count


def main() -> None:
    """Measure, show, and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=0.01, help="of a lap")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    console = Console()
    results = {}
    for name in track(list(WORKS), description="measuring", console=console, transient=True):
        results[name] = measure(WORKS[name](), arguments.laps, arguments.seconds)
    table = Table(title="overhead over the bare environment, microseconds a step")
    for column in ("work", "by hand", "Gymnasium", "arrayferry", "less than Gymnasium", "of by hand"):
        table.add_column(column, justify="left" if column == "work" else "right")
    for name, best in results.items():
        hand, theirs, ours = (best[rival] - best["bare"] for rival in ("by hand", "Gymnasium", "arrayferry"))
        table.add_row(
            name,
            f"{hand:.1f}",
            f"{theirs:.1f}",
            f"{ours:.1f}",
            f"{theirs / ours:.1f}x",
            f"{ours / hand:.2f}x",
        )
    console.print(table)
    machine = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "jax": jax.__version__,
        "gymnasium": gym.__version__,
    }
    console.print("On " + ", ".join(f"{key} {value}" for key, value in machine.items()) + ", on the CPU.")
    arguments.json.write_text(json.dumps({"where": machine, "microseconds": results}, indent=1) + "\n")
    console.print(f"Saved to {arguments.json}. Not measured: GPUs; what a step costs in your environment.")


if __name__ == "__main__":
    main()
