"""Show what arrayferry does on real environments with the frameworks that are installed.

Two failures happen with Gymnasium's wrapper and not with arrayferry's. Environments meet agents of other
frameworks, are explained leaf by leaf and compared bit for bit with the bare environment; then comes the
speed, and an agent that learns CartPole. It takes about half a minute.

    python examples/demo.py [--quick] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import gymnasium as gym
import numpy as np
from array_api_compat import array_namespace
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import arrayferry
from arrayferry.cli import main as command

# An environment, the modules that it needs, and the agent's framework.
MEETINGS = (
    ("CartPole-v1", (), "torch"),
    ("phys2d/CartPole-v1", ("jax", "flax"), "torch"),  # an environment in JAX
    ("CartPole-v1", (), "jax"),
)
GOAL, MAX_STEPS = 400.0, 500_000  # mean return of the latest episodes, and when to give up


class Camera(gym.Env[Any, Any]):
    """Fills the same buffer in every step, as many simulators do, and says in words what it shows."""

    observation_space = gym.spaces.Box(0, 255, (3,), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.buffer = np.zeros(3, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Return a black picture."""
        self.buffer[:] = 0
        return self.buffer, {"mission": "go left"}

    def step(self, action: Any) -> Any:
        """Return a brighter one."""
        self.buffer += 100
        return self.buffer, 0.0, False, False, {"mission": "go right"}


def fail(console: Console) -> None:
    """Step the same environment through Gymnasium's wrapper and arrayferry's."""
    table = Table("", "Gymnasium's NumpyToTorch", "arrayferry's", title="The same environment, twice")
    rows: list[list[str]] = [
        ["the first observation"],
        ["the same tensor, a step later"],
        ["the info's text, 'go left'"],
    ]
    for wrappers in gym.wrappers, arrayferry.wrappers:
        env = wrappers.NumpyToTorch(Camera())
        first, info = env.reset()
        rows[0].append(f"{first.tolist()}")
        env.step(0)
        rows[1].append(f"{first.tolist()}" + (" [red]overwritten[/]" if first.any() else " [green]yours[/]"))
        rows[2].append(escape(f"{info['mission']:.20}"))
    for row in rows:
        table.add_row(*row)
    console.print(table, "")


def missing(*modules: str) -> str:
    """Return what to install for these modules; an empty string if they are all there."""
    absent = [name for name in modules if find_spec(name) is None]
    return f"pip install {' '.join(absent)}" if absent else ""


def equal_to_bare(env: Any, bare: Any, agent: str, steps: int = 100) -> bool:
    """Act through the wrapper, repeat the actions on an equal bare environment, and compare every bit."""
    env = arrayferry.wrap(env, agent)
    obs, _ = env.reset(seed=1)
    equal = same(obs, bare.reset(seed=1)[0])
    xp = array_namespace(obs)
    # A linear policy that balances the pole for a while, in the agent's framework.
    weights = arrayferry.convert(np.array([[0, 0, -1, -1], [0, 0, 1, 1]], np.float32), agent)
    for _ in range(steps):
        action = xp.argmax(xp.matmul(weights, obs))
        obs, reward, terminated, truncated, _ = env.step(action)
        bare_obs, *bare_rest, _ = bare.step(np.int64(action))
        equal &= same(obs, bare_obs) and [reward, terminated, truncated] == bare_rest
        if terminated or truncated:
            obs, _ = env.reset()
            equal &= same(obs, bare.reset()[0])
    return equal


def same(one: Any, two: Any) -> bool:
    """Return whether two arrays are equal in dtype, shape and every bit."""
    one, two = (np.asarray(arrayferry.convert(array, "numpy")) for array in (one, two))
    return bool(one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes())


def meet(env_id: str, agent: str, console: Console) -> bool:
    """Explain an environment for an agent's framework, and compare it with the bare one."""
    console.print(arrayferry.explain(gym.make(env_id), agent))
    equal = equal_to_bare(gym.make(env_id), gym.make(env_id), agent)
    verdict = "[green]equal[/], bit for bit" if equal else "[red]not equal[/]"
    console.print(f"100 steps beside the bare environment: {verdict}\n")
    return equal


def learn(folder: Path, quick: bool, console: Console) -> None:
    """Train an agent in torch on CartPole, and save its learning curve and an episode."""
    from ppo_torch import train

    console.print("[bold]An agent in torch learns CartPole, an environment in NumPy[/]")
    history = []
    with console.status("training") as status:
        for count, mean_return, policy in train(4096 if quick else MAX_STEPS):
            history.append((count, mean_return, policy))
            status.update(f"training: mean return {mean_return:.0f} of {GOAL:.0f}")
            if mean_return >= GOAL:
                break
    steps, returns, policies = zip(*history)
    console.print(f"mean return {returns[-1]:.0f} after {steps[-1]:,} steps (goal: {GOAL:.0f})")
    folder.mkdir(parents=True, exist_ok=True)
    plot_returns(folder / "learning_curve.png", steps, returns)
    if install := missing("pygame"):
        console.print(f"[yellow]not shown:[/] frames of an episode: {install}")
    else:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame needs no screen to render
        plot_frames(folder / "episode.png", play(policies[-1]))
    console.print(f"pictures are in {folder}/\n")


def play(policy: Any) -> list[Any]:
    """Play one episode greedily and return its rendered frames."""
    env = arrayferry.wrap(gym.make("CartPole-v1", render_mode="rgb_array"), "torch")
    obs, _ = env.reset(seed=0)
    frames, done = [env.render()], False
    while not done:
        obs, _, terminated, truncated, _ = env.step(policy(obs).argmax())
        frames.append(env.render())
        done = terminated or truncated
    env.close()
    return frames


def plot_returns(file: Path, steps: Sequence[int], returns: Sequence[float]) -> None:
    """Plot the mean return over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(steps, returns)
    axes.axhline(GOAL, color="grey", linestyle="--")
    axes.set(title="CartPole-v1, an agent in torch", xlabel="steps", ylabel="mean return")
    figure.savefig(file)


def plot_frames(file: Path, frames: list[Any], count: int = 6) -> None:
    """Show some frames of an episode side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.4 * count, 1.8), layout="constrained")
    for axes, index in zip(figure.subplots(1, count), np.linspace(0, len(frames) - 1, count, dtype=int)):
        axes.imshow(frames[index])
        axes.set_axis_off()
    figure.savefig(file)


def main() -> None:
    """Show each part in turn; fail if a comparison does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="train only a few steps, measure only once")
    parser.add_argument("--out", type=Path, default=Path("arrayferry-demo"), help="folder for the pictures")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    console.rule("arrayferry: any environment meets any array framework")
    if not missing("torch", "packaging"):  # which Gymnasium's wrappers import
        fail(console)
    equal = []
    for env_id, needs, agent in MEETINGS:
        if install := missing(*needs, agent):
            console.print(f"[yellow]not shown:[/] {env_id} to {agent}: {install}\n")
        else:
            equal.append(meet(env_id, agent, console))
    if not equal:  # there is always something to show
        equal.append(meet("CartPole-v1", "numpy", console))
    to = "numpy" if missing("torch") else "torch"
    command(["bench", "CartPole-v1", "--to", to, "--laps", "1" if arguments.quick else "15"])
    console.print()
    if install := missing("torch", "matplotlib"):
        console.print(f"[yellow]not shown:[/] an agent that learns CartPole: {install}")
    else:
        learn(arguments.out, arguments.quick, console)
    # `make demo` activates no environment.
    beside = os.path.relpath(Path(sys.executable).with_name("arrayferry"))
    name = "arrayferry" if which("arrayferry") else beside
    console.print(f"Next: [bold]{name} doctor[/], or [bold]{name} explain YOUR_ENV --to torch[/].")
    raise SystemExit(not all(equal))


if __name__ == "__main__":
    main()
