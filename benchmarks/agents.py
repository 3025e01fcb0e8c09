"""What the wrapper costs where there are many agents: mpe2's `simple_spread`, bare and for another framework.

Run `make bench NAME=agents`. All of it in one process, lap by lap in turn; the fastest lap of each counts,
since noise only ever adds. The laps are short, so that some of them are not interrupted.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import cycle
from typing import Any

import numpy as np
from measure import measure
from mpe2 import simple_spread_v3

import arrayferry

FOREVER = 2**62  # no episode ends within a lap


def actions_of(env: Any, to: str) -> Iterator[dict[str, Any]]:
    """The same random actions for each, made beforehand: a policy has them in its framework."""
    rng = np.random.default_rng(0)
    made = [{agent: np.int64(rng.integers(5)) for agent in env.possible_agents} for _ in range(64)]
    return cycle([arrayferry.convert(actions, to) for actions in made])


def in_parallel(env: Any, to: str) -> Callable[[], Any]:
    env.reset(seed=0)
    actions = actions_of(env, to)
    return lambda: env.step(next(actions))


def in_turns(env: Any, to: str) -> Callable[[], Any]:
    """A round: each agent looks and acts."""
    env.reset(seed=0)
    actions = actions_of(env, to)

    def play() -> None:
        for action in next(actions).values():
            env.last()
            env.step(action)

    return play


def torchrl_step(env: Any) -> Callable[[], Any]:
    from torchrl.envs import PettingZooWrapper

    rival = PettingZooWrapper(env)
    state = rival.rand_action(rival.reset())
    return lambda: rival.step(state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", default="torch")
    parser.add_argument("--laps", type=int, default=500)
    to, laps = (arguments := parser.parse_args()).to, arguments.laps
    print(f"Python {platform.python_version()}, simple_spread with 3 agents, to {to}; microseconds a step")
    kinds = {
        "parallel": (simple_spread_v3.parallel_env, in_parallel),
        "AEC": (simple_spread_v3.env, in_turns),
    }
    for kind, (make, stepper) in kinds.items():
        steps = {
            "bare": stepper(make(max_cycles=FOREVER), "numpy"),
            "arrayferry": stepper(arrayferry.wrap(make(max_cycles=FOREVER), to), to),
        }
        if kind == "parallel" and to == "torch" and find_spec("torchrl"):
            steps["TorchRL's PettingZooWrapper"] = torchrl_step(make(max_cycles=FOREVER))
        best = measure(steps, laps=laps, seconds=0.004)
        for name, seconds in best.items():
            print(f"{kind:9} {name:28} {1e6 * seconds:8.1f}  {seconds / best['bare']:.2f}x")


if __name__ == "__main__":
    main()
