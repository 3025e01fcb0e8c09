"""`arrayferry bench --workers`: what worker processes save, and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from time import perf_counter
from typing import Any

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from rich.markup import escape

from arrayferry._explain.render import table
from arrayferry.cli.bench import ACTIONS, BAR, FEWEST, SEED, Trip, replay
from arrayferry.cli.environments import make
from arrayferry.cli.screen import Outcome, one_line, progress
from arrayferry.scale import ProcessVectorEnv
from arrayferry.scale.process import CONTEXT

__all__ = ["compare"]

SYNC, ASYNC, WORKERS = "SyncVectorEnv", "AsyncVectorEnv", "ProcessVectorEnv"


def compare(env_name: str, num_envs: int, workers: int, laps: int) -> Outcome:
    """Measure Gymnasium's vector environments, and ours with worker processes."""
    env_fns = [partial(make, env_name)] * num_envs
    makers: dict[str, Callable[[], Any]] = {
        SYNC: lambda: SyncVectorEnv(env_fns),
        ASYNC: lambda: AsyncVectorEnv(env_fns, context=CONTEXT),
        WORKERS: lambda: ProcessVectorEnv(env_fns, workers=workers),
    }
    title = f"{env_name} x {num_envs}, {workers} worker{'s' if workers > 1 else ''}"
    trips: dict[str, Trip] = {}
    problems: dict[str, str] = {}
    waits: list[tuple[float, float, float]] = []
    make(env_name).close()  # wrong arguments raise here
    with ExitStack() as stack, progress() as bar:
        for name, maker in makers.items():
            try:
                envs = maker()
                stack.callback(envs.close)
                trip = vector_trip(envs, waits)
                trip(FEWEST)
            except Exception as error:
                if name == SYNC:  # it is the environment that fails
                    raise
                problems[name] = one_line(error)
            else:
                trips[name] = trip
        best = replay(trips, bar.track(range(laps), description=f"{title}: taking turns"))
    times = {name: seconds * 1e6 for name, seconds in best.items()}
    rows = [
        (
            name,
            f"{time:.0f}",
            f"{1e6 * num_envs / time:,.0f}",
            "█" * max(1, round(BAR * time / max(times.values()))),
        )
        for name, time in times.items()
    ]
    shown: list[Any] = [f"[bold]{escape(title)}[/]", table(("", ">µs a step", ">env steps/s", ""), rows)]
    shown += [f"{name}: [red]{escape(problem)}[/]" for name, problem in problems.items()]
    waiting: dict[str, float] = {}
    if waits:
        learner, idle, total = map(sum, zip(*waits))
        caller, worker = learner / total, idle / total
        waiting = {"learner": caller, "workers": worker}
        shown.append(f"{WORKERS}: the caller waited {caller:.0%} of the time, a worker {worker:.0%}")
    return Outcome(shown, {"title": title, "microseconds": times, "problems": problems, "waiting": waiting})


def vector_trip(envs: VectorEnv[Any, Any, Any], waits: list[tuple[float, float, float]]) -> Trip:
    """Return the trip through a vector environment; ours adds its wait times to a list."""
    envs.action_space.seed(SEED)
    actions = [envs.action_space.sample() for _ in range(ACTIONS)]

    def trip(steps: int) -> list[float]:
        envs.reset(seed=SEED)
        if isinstance(envs, ProcessVectorEnv):
            envs.wait_times()  # forget the others' turns
        times = []
        for action in islice(cycle(actions), steps):
            start = perf_counter()
            envs.step(action)
            times.append(perf_counter() - start)
        if isinstance(envs, ProcessVectorEnv):
            waits.append(envs.wait_times())
        return times

    return trip
