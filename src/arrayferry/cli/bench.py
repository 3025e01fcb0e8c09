"""`arrayferry bench`: what a wrapper adds to a step of an environment, or what worker processes save.

Each rival steps an environment of its own, from the same seed and with the same actions.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from time import perf_counter
from typing import Any

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from rich.markup import escape

import arrayferry
from arrayferry._core.registry import find_framework, framework_of
from arrayferry._explain.leaves import flat
from arrayferry._explain.render import rich_table
from arrayferry.cli.environments import add_environment, count, default_target, make, title_of
from arrayferry.cli.screen import Outcome, progress
from arrayferry.scale import ProcessVectorEnv
from arrayferry.scale.process import CONTEXT

SUMMARY = "measure what a wrapper adds to a step, or what worker processes save"
EXAMPLES = """\
arrayferry bench
arrayferry bench Pendulum-v1 --to jax
arrayferry bench my_package:MyEnv-v0 --to torch --vector 16 --json
arrayferry bench my_package:MyEnv-v0 --vector 16 --workers 4"""
EXITS_WITH_1 = "the environment fails"

BARE, GYMNASIUM, OURS = "bare", "Gymnasium's wrapper", "arrayferry"
SYNC, ASYNC, WORKERS = "SyncVectorEnv", "AsyncVectorEnv", "ProcessVectorEnv"
_BAR = 24  # characters
_FEWEST, _MOST = 8, 512  # steps of a trip
_ACTIONS, _SEED = 64, 0

Trip = Callable[[int], "list[float]"]  # takes that many steps from the start, returns the seconds of each


def add_arguments(parser: ArgumentParser) -> None:
    """Add the environment, the framework, the number of laps and that of workers."""
    add_environment(parser, default="CartPole-v1")
    parser.add_argument("--laps", metavar="N", type=count, default=30, help="turns of each (default: 30)")
    parser.add_argument(
        "--workers",
        metavar="N",
        type=count,
        help="compare ways to step a vector of environments instead (default: 8): Gymnasium's, and N workers",
    )


def run(arguments: Namespace) -> Outcome:
    """Measure all rivals that work."""
    if arguments.workers is not None:
        many = 8 if arguments.vector is None else arguments.vector
        return compare_vectors(arguments.env, many, arguments.workers, arguments.laps)
    what = arguments.env, arguments.vector, arguments.to or default_target()
    title = title_of(*what)
    trips = {name: rival(name, *what) for name in (BARE, OURS)}  # wrong arguments raise here
    with progress() as bar:
        if not (problem := problem_with(GYMNASIUM, *what)):
            trips = {BARE: trips[BARE], GYMNASIUM: rival(GYMNASIUM, *what), OURS: trips[OURS]}
        best = replay(trips, bar.track(range(arguments.laps), description=f"{title}: taking turns"))
    times = {name: seconds * 1e6 for name, seconds in best.items()}
    shown: list[Any] = [rich_table(title, ("", ">µs a step", ">added", ""), _rows(times))]
    shown += [f"{GYMNASIUM}: [red]{escape(problem)}[/]"] if problem else []
    problems = {GYMNASIUM: problem} if problem else {}
    return Outcome(shown, {"title": title, "microseconds": times, "problems": problems})


def rival(name: str, env_name: str, vector: int | None, to: str) -> Trip:
    """Return the trip of a rival, through an environment that is wrapped as its name says."""
    env = make(env_name, vector)
    env.action_space.seed(_SEED)
    actions: Any = [env.action_space.sample() for _ in range(_ACTIONS)]
    obs, _ = env.reset(seed=_SEED)
    found = framework_of(type(next(iter(flat(obs, "obs").values()))))
    source = find_framework("numpy") if found is None else found  # None for a number
    if name != BARE or source.name != "numpy":
        actions = arrayferry.convert(actions, source if name == BARE else to)
    if name == GYMNASIUM:
        wrapper: Any = (gym.wrappers.vector if vector else gym.wrappers).ArrayConversion
        env = wrapper(env, env_xp=source.load(), target_xp=find_framework(to).load())
    elif name == OURS:
        env = arrayferry.wrap(env, to)

    def trip(steps: int) -> list[float]:
        env.reset(seed=_SEED)
        times = []
        for action in islice(cycle(actions), steps):
            start = perf_counter()
            result = env.step(action)
            times.append(perf_counter() - start)
            if not vector and (result[2] or result[3]):
                env.reset()
        return times

    return trip


def compare_vectors(env_name: str, num_envs: int, workers: int, laps: int) -> Outcome:
    """Measure Gymnasium's vector environments, and ours with worker processes."""
    env_fns = [partial(make, env_name)] * num_envs
    makers: dict[str, Callable[[], Any]] = {
        SYNC: lambda: SyncVectorEnv(env_fns),
        ASYNC: lambda: AsyncVectorEnv(env_fns, context=CONTEXT),
        WORKERS: lambda: ProcessVectorEnv(env_fns, workers),
    }
    title = f"{env_name} x {num_envs}, {workers} worker{'s' if workers > 1 else ''}"
    trips: dict[str, Trip] = {}
    problems: dict[str, str] = {}
    make(env_name).close()  # wrong arguments raise here
    with ExitStack() as stack, progress() as bar:
        for name, maker in makers.items():
            try:
                envs = maker()
                stack.callback(envs.close)
                trips[name] = vector_trip(envs)
                trips[name](_FEWEST)
            except Exception as error:
                if name == SYNC:  # it is the environment that fails
                    raise
                trips.pop(name, None)
                problems[name] = f"{type(error).__name__}: {error}".splitlines()[0]
        best = replay(trips, bar.track(range(laps), description=f"{title}: taking turns"))
    times = {name: seconds * 1e6 for name, seconds in best.items()}
    rows = [
        (name, f"{time:.0f}", f"{1e6 * num_envs / time:,.0f}", _bar(time, times))
        for name, time in times.items()
    ]
    shown: list[Any] = [rich_table(title, ("", ">µs a step", ">env steps/s", ""), rows)]
    shown += [f"{name}: [red]{escape(problem)}[/]" for name, problem in problems.items()]
    return Outcome(shown, {"title": title, "microseconds": times, "problems": problems})


def vector_trip(envs: Any) -> Trip:
    """Return the trip through a vector environment."""
    envs.action_space.seed(_SEED)
    actions = [envs.action_space.sample() for _ in range(_ACTIONS)]

    def trip(steps: int) -> list[float]:
        envs.reset(seed=_SEED)
        times = []
        for action in islice(cycle(actions), steps):
            start = perf_counter()
            envs.step(action)
            times.append(perf_counter() - start)
        return times

    return trip


def problem_with(name: str, env_name: str, vector: int | None, to: str, steps: int = 50) -> str:
    """Return why a rival fails, or an empty string. Try it in another process, which it may crash."""
    code = f"from arrayferry.cli.bench import rival; rival{name, env_name, vector, to}({steps})"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        return f"the process died of signal {-done.returncode}"
    return f"exit code {done.returncode}\n{done.stderr}".strip().splitlines()[-1] if done.returncode else ""


def replay(trips: Mapping[str, Trip], laps: Iterable[int], seconds: float = 0.02) -> dict[str, float]:
    """Return each rival's mean seconds per step, from the best time of each step in trips of about `seconds`.

    Other processes only ever add to a time, so the minimum is closest to the truth; and as the rivals take
    turns, none of them has the machine's quiet moments to itself.
    """
    slowest = max(sum(trip(_FEWEST)) for trip in trips.values()) / _FEWEST
    steps = int(min(_MOST, max(_FEWEST, seconds / slowest)))
    best = {name: [float("inf")] * steps for name in trips}
    for _ in laps:
        for name, trip in trips.items():
            best[name] = [min(pair) for pair in zip(best[name], trip(steps))]
    return {name: sum(times) / steps for name, times in best.items()}


def _rows(times: Mapping[str, float]) -> Iterator[tuple[str, ...]]:
    for name, time in times.items():
        added = "" if name == BARE else f"{max(0.0, time - times[BARE]):.1f}"
        yield name, f"{time:.1f}", added, _bar(time, times)


def _bar(time: float, times: Mapping[str, float]) -> str:
    return f"[cyan]{'█' * max(1, round(_BAR * time / max(times.values())))}[/]"
