"""What watching costs: the same wrapped environment, with and without the sanitizer.

Run `python benchmarks/sanitizer.py`. All of it in one process, lap by lap in turn; the fastest lap of each
counts, since the machine's noise only ever adds.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from rich.console import Console
from rich.progress import track
from rich.table import Table

import arrayferry

BOX = spaces.Box(-1, 1, (4,))


class Single(gym.Env[Any, Any]):
    """A new observation in each step, or the same memory filled again."""

    action_space = spaces.Discrete(2)

    def __init__(self, leaves: int, reuses: bool) -> None:
        self.observation_space = spaces.Dict({f"k{i}": BOX for i in range(leaves)}) if leaves else BOX
        self.keys = [f"k{i}" for i in range(leaves)]
        self.reuses, self.count, self.buffer = reuses, 0, self.observe()

    def observe(self) -> Any:
        if not self.keys:
            return np.zeros(4, np.float32)
        return {key: np.zeros(4, np.float32) for key in self.keys}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.buffer if self.reuses else self.observe(), {}

    def step(self, action: Any) -> Any:
        if not self.reuses:
            return self.observe(), 1.0, False, False, {}
        self.count += 1
        for array in self.buffer.values() if self.keys else (self.buffer,):
            array[0] = self.count % 2
        return self.buffer, 1.0, False, False, {}


class Images(gym.vector.VectorEnv[Any, Any, Any]):
    """Sixty-four stacks of four frames, new or in the same memory."""

    num_envs = 64
    single_observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    observation_space = spaces.Box(0, 255, (64, 84, 84, 4), np.uint8)
    single_action_space, action_space = spaces.Discrete(2), spaces.MultiDiscrete([2] * 64)

    def __init__(self, reuses: bool) -> None:
        self.reuses, self.count, self.buffer = reuses, 0, np.zeros((64, 84, 84, 4), np.uint8)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.buffer if self.reuses else self.buffer.copy(), {}

    def step(self, actions: Any) -> Any:
        self.count += 1
        self.buffer[0] = self.count % 256
        obs = self.buffer if self.reuses else self.buffer.copy()
        return obs, np.zeros(64), np.zeros(64, bool), np.zeros(64, bool), {}


WORKS: dict[str, tuple[Any, Any, int]] = {
    "Box(4)": (lambda reuses: Single(0, reuses), 1, 200),
    "Dict of 8 x Box(4)": (lambda reuses: Single(8, reuses), 1, 100),
    "64 x 84 x 84 x 4 uint8": (Images, np.zeros(64, np.int64), 20),
}
MODES = {"default": {}, "copy=False": {"copy": False}}


def lap(env: Any, action: Any, steps: int) -> float:
    """Microseconds a step."""
    start = time.perf_counter()
    for _ in range(steps):
        env.step(action)
    return (time.perf_counter() - start) / steps * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", default="torch")
    parser.add_argument("--laps", type=int, default=200)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", arrayferry.SanitizerWarning)
    rivals = [
        (
            *(name, memory, mode, action, steps),
            *(
                arrayferry.wrap(make(memory == "reused"), arguments.to, sanitize=on, **options)
                for on in (False, True)
            ),
        )
        for name, (make, action, steps) in WORKS.items()
        for memory in ("new", "reused")
        for mode, options in MODES.items()
    ]
    best: dict[int, list[float]] = {index: [float("inf")] * 2 for index in range(len(rivals))}
    for *_, plain, watched in rivals:
        plain.reset()
        watched.reset()
    for _ in track(range(arguments.laps), transient=True):
        for index, (_, _, _, action, steps, *envs) in enumerate(rivals):
            best[index] = [min(old, lap(env, action, steps)) for old, env in zip(best[index], envs)]
    table = Table("observation", "memory", "copy", "plain us", "watched us", "more us", title="a step")
    for (name, memory, mode, *_), (plain, watched) in zip(rivals, best.values()):
        table.add_row(name, memory, mode, *(f"{t:,.0f}" for t in (plain, watched, watched - plain)))
    console = Console()
    console.print(table)
    console.print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")


if __name__ == "__main__":
    main()
