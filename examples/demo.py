"""What arrayferry does, on real environments, in about half a minute.

Run `make demo`, or `python examples/demo.py` where torch, JAX and Gymnasium are installed.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

import arrayferry

console = Console(highlight=False)


def main() -> None:
    """Show the problem, the one line that solves it, and the proof."""
    warnings.filterwarnings("ignore", module="gymnasium")
    console.rule("[bold]arrayferry[/]: any environment meets any array framework")
    found = ", ".join(f"{one.name} {one.version}" for one in arrayferry.frameworks().values())
    console.print(f"Here: {found}\n")
    show_the_problem()
    show_the_line()
    show_the_proof()
    show_the_speed()
    console.print("\nNext: [bold]docs/quickstart.md[/], or [bold]make test[/].")


def show_the_problem() -> None:
    """The same three values, through Gymnasium's converter and through ours."""
    cases = [
        ("an info string", '{"mission": "go left"}', "torch"),
        ("2**40 in an int64 array", "np.array([2**40])", "jax.numpy"),
        ("a flipped camera image", "np.arange(6, dtype=np.uint8).reshape(2, 3)[::-1]", "torch"),
    ]
    table = Table("leaf", "Gymnasium's array_conversion", "arrayferry.convert")
    for name, code, to in cases:
        theirs = run_apart(f"{_theirs(to)}; print(array_conversion({code}, xp))")
        table.add_row(name, theirs, attempt(eval(code, {"np": np}), to))
    console.print(table)


def _theirs(to: str) -> str:
    load = "from gymnasium.wrappers.array_conversion import array_conversion, module_namespace"
    return f"import numpy as np, {to}; {load}; xp = module_namespace({to})"


def run_apart(code: str) -> str:
    """Run in a process of its own, since it may not survive."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    if done.returncode < 0:
        return f"[red]the process died (signal {-done.returncode})[/]"
    if done.returncode:
        return f"[red]{done.stderr.strip().splitlines()[-1][:60]}[/]"
    return shorten(done.stdout)


def attempt(value: Any, to: str) -> str:
    """What it gives, or what it says."""
    try:
        return f"[green]{shorten(repr(arrayferry.convert(value, to)))}[/]"
    except arrayferry.FerryError as error:
        return f"[green]{type(error).__name__}: {shorten(error.what)}[/]"


def shorten(text: str) -> str:
    """One line that fits a table."""
    text = " ".join(text.split()).replace("[", "\\[")
    return text if len(text) < 70 else text[:66] + " ..."


def show_the_line() -> None:
    """One environment, three agents."""
    table = Table("the line", "what env.step returns")
    for to in [name for name in ("torch", "jax", "numpy") if name in arrayferry.frameworks()]:
        env = arrayferry.wrap(gym.make("FrozenLake-v1"), to)
        env.reset(seed=1)
        action = arrayferry.convert(2, to)
        step = env.step(action)
        table.add_row(f'wrap(gym.make("FrozenLake-v1"), "{to}")', shorten(repr(step)))
    console.print(table)


def show_the_proof() -> None:
    """Whole episodes, with and without the wrapper, are equal to the last bit."""
    names = [name for name in ("torch", "jax") if name in arrayferry.frameworks()]
    table = Table("environment", "agent", "steps", "equal to the bare environment, bit for bit")
    for env_id in ("CartPole-v1", "MountainCarContinuous-v0", "Taxi-v4"):
        for to in names:
            steps, equal = compare(env_id, to)
            table.add_row(env_id, to, str(steps), "[green]yes[/]" if equal else "[red]no[/]")
    console.print(table)


def compare(env_id: str, to: str, steps: int = 200) -> tuple[int, bool]:
    """Step both with the same actions; the agent spoils every observation that it was given."""
    bare, wrapped = gym.make(env_id), arrayferry.wrap(gym.make(env_id), to)
    bare.action_space.seed(0)
    pairs = [(bare.reset(seed=0)[0], wrapped.reset(seed=0)[0])]
    for _ in range(steps):
        action = bare.action_space.sample()
        one, two = bare.step(action), wrapped.step(arrayferry.convert(action, to))
        pairs.append((one[0], arrayferry.convert(two[0], "numpy")))
        if to == "torch" and two[0].ndim:
            two[0].mul_(0)  # ours to write: the environment does not notice
        if one[2:4] != two[2:4] or one[1] != two[1]:
            return len(pairs) - 1, False
        if one[2] or one[3]:
            bare.reset(), wrapped.reset()
    return steps, all(np.array_equal(np.asarray(one), np.asarray(two)) for one, two in pairs[1:])


def show_the_speed(laps: int = 12, steps: int = 300) -> None:
    """Steps of CartPole, interleaved: the bare environment, Gymnasium's wrapper, ours."""
    import torch
    from gymnasium.wrappers.numpy_to_torch import NumpyToTorch

    action = torch.tensor(1)
    rivals: dict[str, tuple[Any, Any]] = {
        "the bare environment": (gym.make("CartPole-v1").unwrapped, 1),
        "Gymnasium's NumpyToTorch": (NumpyToTorch(gym.make("CartPole-v1").unwrapped), action),
        "arrayferry.wrap": (arrayferry.wrap(gym.make("CartPole-v1").unwrapped, "torch"), action),
    }
    best = dict.fromkeys(rivals, float("inf"))
    with console.status("measuring"):
        for _ in range(laps):
            for name, (env, choice) in rivals.items():
                best[name] = min(best[name], lap(env, choice, steps))
    bare = best["the bare environment"]
    table = Table("CartPole-v1 to torch", "microseconds a step", "of which the wrapper")
    for name, seconds in best.items():
        table.add_row(name, f"{seconds * 1e6:.1f}", f"{(seconds - bare) * 1e6:.1f}" if seconds > bare else "")
    console.print(table)


def lap(env: Any, action: Any, steps: int) -> float:
    """Seconds a step."""
    env.reset(seed=0)
    start = time.perf_counter()
    for _ in range(steps):
        if env.step(action)[2]:
            env.reset()
    return (time.perf_counter() - start) / steps


if __name__ == "__main__":
    main()
