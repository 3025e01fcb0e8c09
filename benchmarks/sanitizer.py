"""What watching costs: the same wrapped environment, with and without the sanitizer.

Run `python benchmarks/sanitizer.py`. All of it in one process, lap by lap in turn; the fastest lap of each
counts, since the machine's noise only ever adds.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from measure import measure
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


WORKS: dict[str, tuple[Any, Any]] = {
    "Box(4)": (lambda reuses: Single(0, reuses), 1),
    "Dict of 8 x Box(4)": (lambda reuses: Single(8, reuses), 1),
    "64 x 84 x 84 x 4 uint8": (Images, np.zeros(64, np.int64)),
}
MODES = {"default": {}, "copy=False": {"copy": False}}


def stepper(env: Any, action: Any) -> Callable[[], Any]:
    env.reset()
    return lambda: env.step(action)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", default="torch")
    parser.add_argument("--laps", type=int, default=60)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", arrayferry.sanitizer.SanitizerWarning)
    table = Table("observation", "memory", "copy", "plain us", "watched us", "more us", title="a step")
    for (name, (make, action)), memory, (mode, options) in track(
        [*product(WORKS.items(), ("new", "reused"), MODES.items())], transient=True
    ):
        steps = {
            state: stepper(
                arrayferry.wrap(make(memory == "reused"), arguments.to, sanitize=watches, **options), action
            )
            for state, watches in {"plain": False, "watched": True}.items()
        }
        plain, watched = (seconds * 1e6 for seconds in measure(steps, arguments.laps).values())
        table.add_row(name, memory, mode, *(f"{t:,.0f}" for t in (plain, watched, watched - plain)))
    console = Console()
    console.print(table)
    console.print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")


if __name__ == "__main__":
    main()
