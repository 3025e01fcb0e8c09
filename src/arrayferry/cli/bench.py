"""`arrayferry bench`: what a wrapper adds to a step of an environment.

Each rival steps an environment of its own, from the same seed and with the same actions.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from time import perf_counter
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv
from rich.markup import escape

import arrayferry
from arrayferry._boundary.detect import arrays_in
from arrayferry._core.registry import find_framework
from arrayferry._explain.render import microseconds, table
from arrayferry.cli.environments import add_environment, count, default_target, make, title_of
from arrayferry.cli.screen import Outcome, status
from arrayferry.errors import OptionError

SUMMARY = "measure what a wrapper adds to a step, or what worker processes save"
EXAMPLES = """\
arrayferry bench
arrayferry bench Pendulum-v1 --to jax
arrayferry bench Pendulum-v1 --to torch --device cuda
arrayferry bench my_package:MyEnv-v0 --to torch --vector 16 --json
arrayferry bench my_package:MyEnv-v0 --vector 16 --workers 4"""

BARE, GYMNASIUM, OURS = "bare", "Gymnasium's wrapper", "arrayferry"
BAR = 24  # characters
FEWEST, MOST = 8, 512  # steps of a trip
ACTIONS, SEED = 64, 0

ByRival = Mapping[str, Any]
Trip = Callable[[int], "list[float]"]  # takes that many steps from the start, returns the seconds of each


def add_arguments(parser: ArgumentParser) -> None:
    """Add the environment, the framework, and the numbers of laps and workers."""
    add_environment(parser, default="CartPole-v1")
    parser.add_argument("--laps", metavar="N", type=count, default=30, help="turns of each (default: 30)")
    workers = "compare ways to step --vector environments (default: 8) instead: Gymnasium's, and N workers"
    parser.add_argument("--workers", metavar="N", type=count, help=workers)


def run(arguments: Namespace) -> Outcome:
    """Measure all rivals that work."""
    if arguments.workers is not None:
        from arrayferry.cli.workers import compare

        if arguments.to or arguments.device:
            raise OptionError("--workers compares without a conversion", "leave out --to and --device")
        return compare(arguments.env, arguments.vector or 8, arguments.workers, arguments.laps)
    device = arguments.device
    what = arguments.env, arguments.vector, arguments.to or default_target(), device
    title = title_of(*what[:3]) + (f" on {device}" if device else "")
    bare, ours = rival(BARE, *what), rival(OURS, *what)  # wrong arguments raise here
    with status(f"{title}: taking turns"):
        problem = problem_with_theirs(what)
        theirs = {} if problem else {GYMNASIUM: rival(GYMNASIUM, *what)}
        times = replay({BARE: bare, **theirs, OURS: ours}, arguments.laps)
    added = {name: f"{max(0.0, time - times[BARE]) * 1e6:.1f}" for name, time in times.items()}
    problems = {GYMNASIUM: problem} if problem else {}
    note = f"Times of the host: {device} may still have to do what a step has queued." if device else ""
    return outcome_of(title, times, ">added", added | {BARE: ""}, problems, note)


def outcome_of(
    title: str, times: ByRival, head: str, column: ByRival, problems: ByRival, note: str, **data: Any
) -> Outcome:
    """Return what came of a comparison: the seconds of a step, another column, and who failed and why."""
    bars = {name: "█" * max(1, round(BAR * time / max(times.values()))) for name, time in times.items()}
    rows = [(name, microseconds(time), column[name], bars[name]) for name, time in times.items()]
    shown: list[Any] = [f"[bold]{escape(title)}[/]", table(("", ">µs a step", head, ""), rows)]
    shown += [f"{name}: [red]{escape(problem)}[/]" for name, problem in problems.items()]
    shown += [escape(note)] if note else []
    data["microseconds"] = {name: time * 1e6 for name, time in times.items()}
    return Outcome(shown, {"title": title, **data, "problems": problems})


def rival(name: str, env_name: str, vector: int | None, to: str, device: str | None = None) -> Trip:
    """Return the trip of a rival, through an environment that is wrapped as its name says."""
    env = make(env_name, vector)
    actions = sampled_actions(env)
    obs, _ = env.reset(seed=SEED)
    source = next((framework for framework, _ in arrays_in(obs)), find_framework("numpy"))
    if name != BARE or source.name != "numpy":
        where = (source, None) if name == BARE else (to, device)
        actions = arrayferry.convert(actions, *where)
    if name == GYMNASIUM:
        wrapper: Any = (gym.wrappers.vector if vector else gym.wrappers).ArrayConversion
        target = find_framework(to)
        options = {"target_xp": target.load(), "target_device": target.find_device(device)}
        env = wrapper(env, env_xp=source.load(), **options)
    elif name == OURS:
        env = arrayferry.wrap(env, to, device)
    return trip_through(env, actions)


def sampled_actions(env: Any) -> Any:
    """Return the actions of all trips, which are the same for each rival."""
    env.action_space.seed(SEED)
    return [env.action_space.sample() for _ in range(ACTIONS)]


def trip_through(env: Any, actions: Any) -> Trip:
    """Return the trip through an environment."""
    is_single = not isinstance(env, VectorEnv)

    def trip(steps: int) -> list[float]:
        env.reset(seed=SEED)
        times = []
        for action in islice(cycle(actions), steps):
            start = perf_counter()
            result = env.step(action)
            times.append(perf_counter() - start)
            if is_single and (result[2] or result[3]):
                env.reset()
        return times

    return trip


def problem_with_theirs(what: tuple[Any, ...], steps: int = 50) -> str:
    """Return why Gymnasium's wrapper fails, if it does. Try it in another process, which it may crash."""
    code = f"from arrayferry.cli.bench import rival; rival{GYMNASIUM, *what}({steps})"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        return f"the process died of signal {-done.returncode}"
    return f"exit code {done.returncode}\n{done.stderr}".strip().splitlines()[-1] if done.returncode else ""


def replay(trips: Mapping[str, Trip], laps: int, seconds: float = 0.02) -> dict[str, float]:
    """Return each rival's mean seconds per step, from the best time of each step in trips of about `seconds`.

    Other processes only ever add to a time, so the minimum is closest to the truth; and as the rivals take
    turns, none of them has the machine's quiet moments to itself.
    """
    slowest = max(sum(trip(FEWEST)) for trip in trips.values()) / FEWEST
    steps = int(min(MOST, max(FEWEST, seconds / slowest)))
    best = {name: [float("inf")] * steps for name in trips}
    for _ in range(laps):
        for name, trip in trips.items():
            best[name] = [min(pair) for pair in zip(best[name], trip(steps))]
    return {name: sum(times) / steps for name, times in best.items()}
