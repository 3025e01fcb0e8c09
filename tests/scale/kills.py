"""Kill workers at random moments, and compare every row with what it must be.

    python kills.py forkserver NextStep 100

Prints how many kills there were, how many wrong rows, and how long a row took to go on. A program of its own,
because a process in which JAX has started cannot fork.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from arrayferry.scale import ProcessVectorEnv

NUM_ENVS, WORKERS, SEED = 6, 3, 7


class Counter(gym.Env[Any, Any]):
    """Observes its seed, its number and its count, each a thousand times: half of a row is never right."""

    observation_space = spaces.Box(-1, 2**62, (3, 1000), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, index: int) -> None:
        self.index, self.seed = index, -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.count, self.seed = 0, self.seed if seed is None else seed
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        time.sleep(0.001)
        return self._observe(), float(self.count), self.count == last_count(self.index), False, {}

    def _observe(self) -> Any:
        return np.repeat([[self.seed], [self.index], [self.count]], 1000, axis=1)


def last_count(index: int) -> int:
    return 20 + index


class Model:
    """What each row must be after what it was."""

    def __init__(self, mode: AutoresetMode) -> None:
        self.mode, self.wrong = mode, 0
        self.seeds = [SEED + index for index in range(NUM_ENVS)]
        self.counts, self.faults = [0] * NUM_ENVS, [0] * NUM_ENVS
        self.waits = [False] * NUM_ENVS  # for a reset in the next step

    def check(self, fact: bool, *what: Any) -> None:
        if not fact:
            self.wrong += 1
            print("wrong:", *what, file=sys.stderr)

    def check_row(self, index: int, row: Any, count: int) -> None:
        expected = [[self.seeds[index]], [index], [count]]
        self.check(bool((row == expected).all()), index, expected, row[:, ::999].tolist())

    def replaced(self, index: int, row: Any) -> None:
        """Take the seed of a successor, made of the seed, the environment and the number of faults.

        There may have been more faults than were told, of successors that were killed before they were seen.
        """
        for faults in range(self.faults[index], self.faults[index] + 9):
            seed = int(np.random.SeedSequence([SEED + index, index, faults]).generate_state(1)[0])
            if row[0, 0] == seed:
                self.seeds[index], self.faults[index] = seed, faults
                return
        self.check(False, index, "a successor's seed is", row[0, 0])

    def reset(self, obs: Any, mask: Any, fault: Any) -> None:
        for index, row in enumerate(obs):
            self.faults[index] += bool(fault[index])
            if self.waits[index] or fault[index]:
                self.replaced(index, row)
                self.waits[index] = False
                self.counts[index] = 0
            elif mask[index]:
                self.counts[index] = 0
            self.check_row(index, row, self.counts[index])

    def step(self, result: Any) -> Any:
        """Check all rows; return which ones have a fault, and which ones go on after one."""
        obs, rewards, terminated, truncated, infos = result
        fault = infos.get("fault", np.zeros(NUM_ENVS, bool))
        went_on = np.zeros(NUM_ENVS, bool)
        for index, row in enumerate(obs):
            numbers = float(rewards[index]), bool(terminated[index]), bool(truncated[index])
            is_over = self.counts[index] == last_count(index) and self.mode is AutoresetMode.NEXT_STEP
            if fault[index]:
                self.faults[index] += 1
                self.check(numbers == (0, False, True), index, numbers)
                self.waits[index] = self.mode is not AutoresetMode.SAME_STEP
                if not self.waits[index]:
                    self.check_row(index, infos["final_obs"][index], self.counts[index])
                    self.replaced(index, row)
                    self.counts[index], went_on[index] = 0, True
            elif self.waits[index] or is_over:
                self.check(numbers == (0, False, False), index, numbers)
                if self.waits[index]:
                    self.replaced(index, row)
                    self.waits[index], went_on[index] = False, True
                self.counts[index] = 0
            else:
                self.counts[index] += 1
                is_last = self.counts[index] == last_count(index)
                self.check(numbers == (self.counts[index], is_last, False), index, numbers)
                if is_last and self.mode is AutoresetMode.SAME_STEP:
                    self.check_row(index, infos["final_obs"][index], self.counts[index])
                    self.counts[index] = 0
            self.check_row(index, row, self.counts[index])
        return fault, went_on


def run(context: str, mode: AutoresetMode, kills: int, seed: int = 0) -> dict[str, Any]:
    """Step until that many workers were killed and have been replaced."""
    envs = ProcessVectorEnv(
        [lambda index=index: Counter(index) for index in range(NUM_ENVS)],
        workers=WORKERS,
        context=context,
        autoreset_mode=mode,
        max_faults=1000,
    )
    model, chance = Model(mode), random.Random(seed)
    done = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < kills:
            done.wait(chance.uniform(0, pause))
            process = chance.choice(envs._workers)._process
            if process.pid is not None and process.pid not in killed and process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                killed.append(process.pid)
        done.set()

    pause = 2 if context == "spawn" else 0.2  # a successor imports all by itself, or not
    nobody = np.zeros(NUM_ENVS, bool)
    obs, infos = envs.reset(seed=SEED)
    model.reset(obs, ~nobody, infos.get("fault", nobody))
    killer = threading.Thread(target=kill)
    killer.start()
    since: dict[int, float] = {}
    faults, times, steps = 0, [], 0
    while not done.is_set() or since or any(model.waits) or steps < 50:
        started = time.monotonic()
        result = envs.step(np.zeros(NUM_ENVS, int))
        fault, went_on = model.step(result)
        steps += 1
        faults += len({index // (NUM_ENVS // WORKERS) for index in np.flatnonzero(fault)})
        if mode is AutoresetMode.DISABLED and (mask := result[2] | result[3]).any():
            obs, infos = envs.reset(options={"reset_mask": mask})
            went_on = np.array(model.waits)
            model.reset(obs, mask, infos.get("fault", nobody))
        for index in np.flatnonzero(fault):
            since.setdefault(int(index), started)
        times += [time.monotonic() - since.pop(int(i)) for i in np.flatnonzero(went_on) if int(i) in since]
    killer.join()
    envs.close()
    slow = sum(one > 1 for one in times)
    return {
        "kills": len(killed),
        "faults": faults,
        "steps": steps,
        "wrong": model.wrong,
        "within 1 s": 1 - slow / max(len(times), 1),
        "median s": round(float(np.median(times)), 3) if times else None,
        "longest s": round(max(times), 3) if times else None,
    }


def left() -> dict[str, int]:
    """Return how many files this process has open, and how many pieces of shared memory it sees."""
    gc.collect()
    mapped = Path("/proc/self/maps").read_text().splitlines()
    shared = [line for line in mapped if "/pym-" in line or "/sem.mp-" in line or "/dev/shm/" in line]
    return {"files": len(os.listdir("/proc/self/fd")), "shared memory": len(shared)}


if __name__ == "__main__":
    mode = AutoresetMode(sys.argv[2])
    run(sys.argv[1], mode, 1)  # starts what stays: the fork server, the resource tracker
    before = left()
    found = run(sys.argv[1], mode, int(sys.argv[3]))
    print(json.dumps({**found, **{name: count - before[name] for name, count in left().items()}}))
