"""`arrayferry demo`: what it does, on real environments, with what is installed, in two minutes at most."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import arrayferry
from arrayferry.cli import pictures
from arrayferry.cli.bench import compare, shown
from arrayferry.cli.crossings import CROSSINGS, Crossing, equal_to_bare
from arrayferry.cli.environments import count, default_target, make
from arrayferry.cli.exits import FINE, FOUND, UsageError
from arrayferry.cli.screen import Screen, escaped

SUMMARY = "environments meet agents of other frameworks, before your eyes"
EXAMPLES = """\
arrayferry demo
arrayferry demo --out pictures --seconds 30"""

GOAL = 400.0


def add_arguments(parser: ArgumentParser) -> None:
    """Where the pictures go, and how long to train."""
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path("arrayferry-demo"), help="for the pictures"
    )
    parser.add_argument(
        "--seconds", metavar="N", type=count, default=90, help="to train at most (default: 90)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the training (default: 0)")
    parser.add_argument("--laps", metavar="N", type=count, default=15, help="of the timing (default: 15)")


def run(arguments: Namespace, screen: Screen) -> int:
    """Each part in turn; fail if a proof does."""
    if arguments.out.exists() and not arguments.out.is_dir():
        raise UsageError(f"--out {arguments.out}: that is a file, and pictures need a folder")
    screen.out.rule("arrayferry: any environment meets any array framework")
    here = arrayferry.frameworks()
    screen.show(f"Here: {', '.join(f'{one.name} {one.version}' for one in here.values())}\n")
    absent: list[str] = []
    proofs = [_cross(crossing, screen, absent) for crossing in CROSSINGS]
    if all(proof is None for proof in proofs):
        proofs.append(_cross(Crossing("CartPole-v1", "numpy", default_target()), screen, absent))
    screen.show("[bold]How fast is it?[/]")
    speed = compare("CartPole-v1", None, default_target(), arguments.laps, screen)
    screen.show(*shown(speed), "")
    training = _train(arguments, screen, absent)
    for text in dict.fromkeys(absent):
        screen.show(f"[yellow]not shown:[/] {escaped(text)}")
    screen.show("Next: [bold]arrayferry doctor[/], or [bold]arrayferry explain ENV_ID[/] with one of yours.")
    done = [proof for proof in proofs if proof is not None]
    screen.result({"proofs": done, "speed": speed, "training": training, "not_shown": absent})
    return FINE if all(proof["equal"] for proof in done) else FOUND


def _cross(crossing: Crossing, screen: Screen, absent: list[str]) -> dict[str, Any] | None:
    """Explain one environment with one agent, and prove that the agent sees the environment as it is."""
    if missing := crossing.missing():
        absent.append(f"{crossing}: {missing}")
        return None
    screen.show(f"[bold]{crossing}[/]")
    env = make(crossing.env_id)
    screen.show(arrayferry.explain(env, crossing.agent))
    env.close()
    proof = equal_to_bare(crossing)
    verdict = "[green]equal[/]" if proof["equal"] else "[red]not equal[/]"
    screen.show(f"{proof['steps']} steps beside the bare environment: {verdict}, bit for bit\n")
    return proof


def _train(arguments: Namespace, screen: Screen, absent: list[str]) -> dict[str, Any] | None:
    """Train an agent, say how it went, and keep pictures of it."""
    if "torch" not in arrayferry.frameworks():
        absent.append('an agent that learns CartPole needs torch: pip install "arrayferry[torch]"')
        return None
    from arrayferry.cli.training import train

    screen.show("[bold]An agent in torch learns CartPole, an environment in NumPy[/]")
    progress = None
    with screen.progress("training", total=GOAL) as tell:
        for progress in train(GOAL, arguments.seconds, arguments.seed):
            text = f"training: mean return {progress.mean_return:.0f} of {GOAL:.0f}"
            tell(completed=min(GOAL, progress.mean_return), description=text)
    assert progress is not None  # there is at least one second to train
    passed = progress.mean_return >= GOAL
    end = f"passed {GOAL:.0f}" if passed else "did not pass the goal: the time was over"
    steps, seconds = progress.steps[-1], progress.seconds[-1]
    screen.show(f"mean return {progress.mean_return:.0f} after {steps:,} steps, {seconds:.0f} s: {end}")
    files = _keep_pictures(arguments.out, progress, screen, absent)
    return {
        "passed": passed,
        "mean_return": progress.mean_return,
        "steps": steps,
        "seconds": seconds,
        "pictures": [str(file) for file in files],
    }


def _keep_pictures(folder: Path, progress: Any, screen: Screen, absent: list[str]) -> list[Path]:
    if not pictures.available():
        absent.append('pictures need matplotlib: pip install "arrayferry[cli]"')
        return []
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "learning_curve.png"]
    pictures.curve(files[0], progress.steps, progress.returns, GOAL)
    if find_spec("pygame") is None:
        absent.append('frames of an episode need pygame: pip install "gymnasium[classic-control]"')
    else:
        files.append(folder / "episode.png")
        pictures.strip(files[1], _episode(progress.policy))
    screen.show(*(escaped(f"saved {file}") for file in files), "")
    return files


def _episode(policy: Any) -> list[Any]:
    """The frames of one episode, played by the policy; rendered frames are NumPy's, whatever the agent's."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # no window, and no word about there being none
    env: Any = arrayferry.wrap(make("CartPole-v1", render_mode="rgb_array"), "torch")
    obs, _ = env.reset(seed=0)
    frames, over = [env.render()], False
    while not over:
        obs, _, terminated, truncated, _ = env.step(policy(obs).argmax())
        frames.append(env.render())
        over = terminated or truncated
    env.close()
    return frames
