"""`arrayferry bench --workers`: what worker processes save, and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from typing import Any

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from arrayferry.cli.bench import FEWEST, SEED, Trip, outcome_of, replay, sampled_actions, trip_through
from arrayferry.cli.environments import make
from arrayferry.cli.screen import Outcome, one_line, progress
from arrayferry.scale import ProcessVectorEnv
from arrayferry.scale.process import CONTEXT

__all__ = ["compare"]

SYNC, ASYNC, WORKERS = "SyncVectorEnv", "AsyncVectorEnv", "ProcessVectorEnv"
SECONDS = 0.5  # for which it is watched who waits for whom


def compare(env_name: str, num_envs: int, workers: int, laps: int) -> Outcome:
    """Measure Gymnasium's vector environments, and ours with worker processes."""
    env_fns = [partial(make, env_name)] * num_envs
    makers: dict[str, Callable[[], Any]] = {
        SYNC: lambda: SyncVectorEnv(env_fns),
        ASYNC: lambda: AsyncVectorEnv(env_fns, context=CONTEXT),
        WORKERS: lambda: ProcessVectorEnv(env_fns, workers=workers),
    }
    title = f"{env_name} x {num_envs}, {workers} worker{'s' if workers > 1 else ''}"
    envs: dict[str, Any] = {}
    trips: dict[str, Trip] = {}
    problems: dict[str, str] = {}
    data: dict[str, Any] = {"waiting": {}}
    note = ""
    make(env_name).close()  # wrong arguments raise here
    with ExitStack() as stack, progress() as bar:
        for name, maker in makers.items():
            try:
                envs[name] = maker()
                stack.callback(envs[name].close)
                trip = trip_through(envs[name], sampled_actions(envs[name]))
                trip(FEWEST)
            except Exception as error:
                if name == SYNC:  # it is the environment that fails
                    raise
                problems[name] = one_line(error)
            else:
                trips[name] = trip
        times = replay(trips, bar.track(range(laps), description=f"{title}: taking turns"))
        if WORKERS in trips:
            learner, idle = _waits(envs[WORKERS], int(max(FEWEST, SECONDS / times[WORKERS])))
            data["waiting"] = {"learner": learner, "workers": idle}
            note = f"{WORKERS}: the caller waited {learner:.0%} of the time, a worker {idle:.0%}"
    speeds = {name: f"{num_envs / time:,.0f}" for name, time in times.items()}
    return outcome_of(title, times, ">env steps/s", speeds, problems, note, **data)


def _waits(envs: ProcessVectorEnv, steps: int) -> tuple[float, float]:
    """Return which shares of the time of some steps the caller and a worker wait."""
    actions = sampled_actions(envs)
    envs.reset(seed=SEED)
    envs.wait_times()  # what came before does not count
    for action in islice(cycle(actions), steps):
        envs.step(action)
    learner, idle, total = envs.wait_times()
    return learner / total, idle / total
