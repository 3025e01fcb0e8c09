"""What a batched simulator costs as a vector environment: `.venv-mjlab/bin/python benchmarks/simulators.py`.

Each work has two rivals that do the same, ours and a bare one, which step in turn. Their times are the CPU
time of the thread, because other programs only add to that by spoiling caches: of many short laps, it prints
the ratio of the fastest, and the median of the ratios.
"""

from __future__ import annotations

import argparse
import ctypes
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median
from time import thread_time
from typing import Any

import torch
from gymnasium.spaces import Box

import arrayferry
from arrayferry.envs import as_gymnasium

Step = Callable[[], Any]
WITH_ENDS = 10  # steps in an episode; episodes end at different times


def cartpoles(rows: int, has_ends: bool, final_obs: bool | None) -> tuple[Step, Step]:
    """Return the steps of mjlab's Cartpole, bare and wrapped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses what torch deprecates
        import mjlab.tasks  # noqa: F401  (which registers them)
        from mjlab.envs import ManagerBasedRlEnv
        from mjlab.tasks.registry import load_env_cfg

    cfg = load_env_cfg("Mjlab-Cartpole-Balance")
    cfg.scene.num_envs, cfg.seed = rows, 1
    limit = WITH_ENDS if has_ends else 10**6
    cfg.episode_length_s = limit * cfg.sim.mujoco.timestep * cfg.decimation - 1e-6
    bare, wrapped = (ManagerBasedRlEnv(cfg, device="cpu") for _ in range(2))
    envs = arrayferry.wrap(as_gymnasium(wrapped, final_obs=final_obs), "torch")
    bare.reset(), envs.reset()
    for env in (bare, wrapped):
        env.episode_length_buf = torch.arange(rows) % WITH_ENDS
    actions = torch.zeros(rows, 1)
    return partial(bare.step, actions), partial(envs.step, actions)


class Free:
    """A simulator whose step costs nothing, and which overwrites what it has returned."""

    num_envs, is_vector_env = 4096, True
    single_action_space = Box(-1, 1, (12,))

    def __init__(self) -> None:
        groups = "policy", "critic", "history"
        self.obs = {name: torch.zeros(self.num_envs, 48) for name in groups}
        flags = (torch.zeros(self.num_envs, dtype=torch.bool) for _ in range(2))
        self.step_result = self.obs, torch.zeros(self.num_envs), *flags, dict[str, Any]()

    def reset(self) -> Any:
        """Return the observations."""
        return self.obs, {}

    def step(self, actions: Any) -> Any:
        """Return the same as ever."""
        return self.step_result


def free(opened: Callable[[Any], Any]) -> tuple[Step, Step]:
    """Return a step that only clones what the simulator returns, and one of the vector environment."""
    sim = Free()
    envs = opened(sim)
    envs.reset()
    actions = torch.zeros(sim.num_envs, 12)

    def clone() -> Any:
        obs, *others, _ = sim.step(actions)
        return {name: value.clone() for name, value in obs.items()}, *(other.clone() for other in others), {}

    return clone, partial(envs.step, actions)


def measure(rivals: tuple[Step, Step], laps: int, steps: int) -> list[list[float]]:
    """Return the seconds that a step of each rival took, lap by lap."""
    times: list[list[float]] = [[], []]
    for lap in range(laps + 1):
        for rival, step in [*enumerate(rivals)][:: 1 - lap % 2 * 2]:
            begun = thread_time()
            for _ in range(steps):
                step()
            if lap:  # the first warms up
                times[rival].append((thread_time() - begun) / steps)
    return times


def works() -> dict[str, tuple[Callable[[], tuple[Step, Step]], int]]:
    """Return, by name, what makes the rivals, and the steps in a lap."""
    same = partial(as_gymnasium, autoreset_mode="SameStep")
    found: dict[str, Any] = {
        "toy, as_gymnasium": (partial(free, same), 50),
        "toy, wrap": (
            partial(free, lambda sim: arrayferry.wrap(sim, "torch", autoreset_mode="SameStep")),
            50,
        ),
    }
    for rows in (4, 1024):
        name = f"mjlab, {rows} rows"
        found[f"{name}, no ends"] = partial(cartpoles, rows, False, None), WITH_ENDS
        found[f"{name}, ends, final_obs=False"] = partial(cartpoles, rows, True, False), WITH_ENDS
        found[f"{name}, ends, exact final_obs"] = partial(cartpoles, rows, True, None), WITH_ENDS
    return found


def main() -> None:
    """Print a line for each work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laps", type=int, default=30)
    parser.add_argument("--only", default="", help="a part of the names of the works")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for option in (-1, -3):  # glibc keeps what is freed, so that no rival has page faults by chance
        ctypes.CDLL(None).mallopt(option, 2**30)
    for name, (make, steps) in works().items():
        if arguments.only in name:
            bare, ours = measure(make(), arguments.laps, steps)
            ratio = median(our / its for our, its in zip(ours, bare))
            least, more = min(bare) * 1e6, (min(ours) - min(bare)) * 1e6
            middle = median(our - its for our, its in zip(ours, bare)) * 1e6
            print(
                f"{name:40s} bare {least:8.1f} us, ours {more:+7.1f} us ({middle:+7.1f}), "
                f"{1 + more / least:.3f} times (median {ratio:.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
