"""What `RayVectorEnv` adds to bare actor calls, and how it compares with one process.

Run `make bench NAME=scale_ray`. A bare actor returns arrays of the same sizes, made beforehand, and its
driver only waits for them; one written by hand steps the same environments in a `SyncVectorEnv`. All of it
in one process, lap by lap in turn; the fastest lap of each counts. The driver's CPU time is what limits one
learner, however many hosts there are.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # the loopback interface only

import gymnasium as gym
import numpy as np
import ray
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv, VectorEnv
from measure import measure

from arrayferry.scale import RayVectorEnv

# actors, environments of each, bytes of an observation
SIZES = [(1, 4, 16), (2, 4, 16), (4, 4, 16), (2, 4, 1_000), (2, 4, 28_000), (2, 2, 1_000_000)]


class Sleeps(gym.Env[Any, Any]):
    """Does nothing, for some time."""

    def __init__(self, size: int, seconds: float) -> None:
        self.observation_space, self.action_space = spaces.Box(0, 255, (size,), np.uint8), spaces.Discrete(3)
        self._obs, self._seconds = np.zeros(size, np.uint8), seconds

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._obs, {}

    def step(self, action: Any) -> Any:
        if self._seconds:
            time.sleep(self._seconds)
        return self._obs, 1.0, False, False, {}


@ray.remote
class Bare:
    """Answers with as many bytes as some environments."""

    def __init__(self, count: int, size: int) -> None:
        flags = np.zeros(count, bool)
        self._answer = np.zeros((count, size), np.uint8), np.zeros(count), flags, flags.copy(), {}

    def step(self, actions: Any) -> Any:
        return self._answer


@ray.remote
class ByHand:
    """Steps environments, with nothing against faults, and answers with what cannot be written to."""

    def __init__(self, count: int, size: int) -> None:
        self._envs = SyncVectorEnv([partial(Sleeps, size, 0)] * count)
        self._envs.reset(seed=0)

    def step(self, actions: Any) -> Any:
        return self._envs.step(actions)


def rival_step(kind: Any, workers: int, count: int, size: int) -> Callable[[], Any]:
    actors, actions = [kind.remote(count, size) for _ in range(workers)], np.zeros(count, int)
    return lambda: ray.get([actor.step.remote(actions) for actor in actors])


def step_of(envs: VectorEnv[Any, Any, Any]) -> Callable[[], Any]:
    envs.reset(seed=0)
    actions = np.zeros(envs.num_envs, int)
    return lambda: envs.step(actions)


def cpu_of(step: Callable[[], Any], steps: int = 100) -> float:
    start = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - start) / steps


def beside_bare_calls(laps: int) -> None:
    print("ms a step                           bare by hand   ours  ratios      the driver's CPU, per actor")
    for workers, count, size in SIZES:
        envs = RayVectorEnv([partial(Sleeps, size, 0)] * (workers * count), workers=workers)
        rivals = [rival_step(kind, workers, count, size) for kind in (Bare, ByHand)]
        steps = dict(zip(("bare", "by hand", "ours"), (*rivals, step_of(envs))))
        bare, hand, ours = (1e3 * seconds for seconds in measure(steps, laps, 0.05).values())
        cpu = 1e3 * cpu_of(steps["ours"]) / workers
        what = f"{workers} actors x {count} of {size:9,} bytes"
        print(f"{what}  {bare:6.2f} {hand:7.2f} {ours:6.2f} {ours / bare:6.2f} {ours / hand:5.2f} {cpu:6.2f}")
        envs.close()


def beside_one_process() -> None:
    print("\nms a step, 4 environments that sleep    Sync   2 actors")
    for seconds in (0.0001, 0.001, 0.01, 0.1):
        env_fns = [partial(Sleeps, 16, seconds)] * 4
        envs = RayVectorEnv(env_fns, workers=2)
        found = measure({"sync": step_of(SyncVectorEnv(env_fns)), "ours": step_of(envs)}, 5, 0.1)
        sync, ours = (1e3 * one for one in found.values())
        print(f"{1e3 * seconds:6.1f} ms {sync:35.2f} {ours:10.2f}")
        envs.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=40, help="turns that each takes")
    laps = parser.parse_args().laps
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    beside_bare_calls(laps)
    beside_one_process()


if __name__ == "__main__":
    main()
