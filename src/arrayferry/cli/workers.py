"""`arrayferry bench --workers`: what worker processes save, and who waits for whom."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from typing import Any

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from arrayferry.cli.bench import FEWEST, SEED, Trip, outcome_of, replay, sampled_actions, trip_through
from arrayferry.cli.environments import make
from arrayferry.cli.screen import Outcome, one_line, status
from arrayferry.scale import ProcessVectorEnv
from arrayferry.scale.process import CONTEXT

SYNC, ASYNC, WORKERS = "SyncVectorEnv", "AsyncVectorEnv", "ProcessVectorEnv"
SECONDS = 0.5  # for which it is watched who waits for whom


def compare(env_name: str, num_envs: int, workers: int, laps: int) -> Outcome:
    """Measure Gymnasium's vector environments, and ours with worker processes."""
    env_fns = [partial(make, env_name)] * num_envs
    makers: dict[str, Any] = {
        SYNC: partial(SyncVectorEnv, env_fns),
        ASYNC: partial(AsyncVectorEnv, env_fns, context=CONTEXT),
        WORKERS: partial(ProcessVectorEnv, env_fns, workers=workers),
    }
    title = f"{env_name} x {num_envs}, {workers} worker{'s' if workers > 1 else ''}"
    vectors: dict[str, Any] = {}
    trips: dict[str, Trip] = {}
    problems: dict[str, str] = {}
    waiting: dict[str, float] = {}
    note = ""
    with ExitStack() as stack, status(f"{title}: taking turns"):
        for name, maker in makers.items():
            try:
                vectors[name] = envs = maker()
                stack.callback(envs.close)
                trip = trip_through(envs, sampled_actions(envs))
                trip(FEWEST)
                trips[name] = trip
            except Exception as error:
                if name == SYNC:  # it is the environment that fails
                    raise
                problems[name] = one_line(error)
        times = replay(trips, laps)
        if WORKERS in trips:
            learner, idle = _waits(vectors[WORKERS], int(max(FEWEST, SECONDS / times[WORKERS])))
            waiting = {"learner": learner, "workers": idle}
            note = f"{WORKERS}: the caller waited {learner:.0%} of the time, a worker {idle:.0%}"
    speeds = {name: f"{num_envs / time:,.0f}" for name, time in times.items()}
    return outcome_of(title, times, ">env steps/s", speeds, problems, note, waiting=waiting)


def _waits(envs: ProcessVectorEnv, steps: int) -> tuple[float, float]:
    """Return which shares of the time of some steps the caller and a worker wait."""
    actions = sampled_actions(envs)
    envs.reset(seed=SEED)
    envs.wait_times()  # what came before does not count
    for action in islice(cycle(actions), steps):
        envs.step(action)
    learner, idle, total = envs.wait_times()
    return learner / total, idle / total
