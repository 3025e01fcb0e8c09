"""An environment explained: what comes out of real steps, and the actions that go in."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import Any

from gymnasium.vector import VectorEnv

from arrayferry._boundary.agents import AgentsBoundary
from arrayferry._boundary.answers import RESET, STEP, checked
from arrayferry._boundary.boundary import Boundary, boundary_of
from arrayferry._core.convert import Namespace, convert
from arrayferry._core.messages import count_of
from arrayferry._explain.explanation import Explanation, advice_for
from arrayferry._explain.leaves import Leaf, Recorder
from arrayferry.envs.adapters import adapter_of
from arrayferry.envs.opening import opened
from arrayferry.envs.rollout import RandomRollout, rollout_of
from arrayferry.errors import FerryError
from arrayferry.wrappers import wrap

# Seconds by what took them.
Laps = dict[str, list[float]]

# What some reasons mean for an action: the action space decides about it, and the agent still holds it.
_IN_ACTIONS = {
    "number": ("converted", "scalar"),
    "no-dtype": ("cast", "space-dtype"),
    "unheld": ("shared", "already-member"),
}


def explain_environment(env: Any, to: Namespace, steps: int, seed: int | None, **options: Any) -> Explanation:
    """Explain what the wrapper does in a step of an environment, which may be given by its id.

    It takes as many steps for the times, without looking at the leaves, as it takes for the leaves.
    """
    count_of("steps", steps)
    with opened(env) as base:
        wrapped: Any = wrap(base, to, sanitize=False, **options)
        boundary, rollout = boundary_of(wrapped), rollout_of(base, adapter_of(base).kind)
        with suppress(FerryError):  # a refused leaf is reported below, with the others
            rollout.reset(wrapped, seed)  # here the wrapper learns which arrays the environment takes
        by_path: dict[str, list[Leaf]] = defaultdict(list)
        laps: Laps = defaultdict(list)
        for number in range(2 * steps):
            for leaf in _step(base, rollout, boundary, laps, looks=number >= steps):
                by_path[leaf.path].append(leaf)
        leaves = tuple(map(_usual, by_path.values()))
        seconds = {name: min(times) for name, times in laps.items()}
        advice = [*advice_for(leaves, boundary.outgoing)]
        inner, target = boundary_of(base), boundary.outgoing.framework
        if inner is not None and inner.outgoing.framework is target:
            advice.append(f"both sides are {target.name}: leave one wrapper out")
        name = getattr(getattr(base, "spec", None), "id", type(base).__name__)
        name = str(base) if isinstance(boundary, AgentsBoundary) else name
        many = f" x {base.num_envs}" if isinstance(base, VectorEnv) else ""
        return Explanation(f"{name}{many} to {target.name}", leaves, tuple(advice), seconds, steps)


def _usual(same: list[Leaf]) -> Leaf:
    """Return a leaf as it was most of the time, or as refused if it ever was."""
    same = [leaf for leaf in same if leaf.memory == "refused"] or same
    kinds = [(leaf.before, leaf.after, leaf.memory, leaf.reason) for leaf in same]
    kind, seen = Counter(kinds).most_common(1)[0]
    alike = [leaf for leaf, its_kind in zip(same, kinds) if its_kind == kind]
    return replace(alike[-1], seconds=min(leaf.seconds for leaf in alike), seen=seen)


def _step(env: Any, rollout: RandomRollout, boundary: Boundary, laps: Laps, *, looks: bool) -> list[Leaf]:
    """Take a step; return what becomes of its leaves, or convert them and note how long that takes."""
    action = convert(rollout.sample(), boundary.outgoing.framework, boundary.outgoing.device)
    acting = rollout.boundary(boundary)
    start = perf_counter()
    member = acting.convert_action(action)
    converted = perf_counter()
    box = [rollout.step(env, member)]
    stepped = perf_counter()
    laps["action"].append(converted - start)
    laps["step"].append(stepped - converted)
    if looks:
        recorder = Recorder(acting.state.to_env, "the agent still holds", _IN_ACTIONS)
        leaves = recorder.compare("action", action, member, "held")
        leaves = [replace(leaf, seconds=(converted - start) / len(leaves)) for leaf in leaves]
        box[:] = checked("step", STEP, box.pop())
        boundary.learn_from(box)
        leaves += _leaves_of_result(env, boundary, box)
        rollout.start_again(env, *box[2:4])
        return leaves
    try:
        _, _, terminated, truncated, _ = boundary.convert_step(box)
    except FerryError:  # it is among the leaves; whether the episode is over is unknown
        env.reset()
    else:
        laps["out"].append(perf_counter() - stepped)
        rollout.start_again(env, terminated, truncated)
    return []


def _leaves_of_result(env: Any, boundary: Boundary, box: list[Any]) -> list[Leaf]:
    """Return what becomes of the five values of a step; of a single environment's, three are numbers."""
    recorder = Recorder(boundary.outgoing, "the environment still holds")
    if isinstance(env, VectorEnv):
        return recorder.record(box, STEP)
    numbers, box[1:4] = box[1:4], []  # so that only the box holds what is walked
    leaves = recorder.record(box, RESET)
    box[1:1] = numbers
    _, *converted, _ = boundary.convert_step([(None, *numbers, None)])
    for name, value, result in zip(STEP[1:4], numbers, converted):
        leaves += recorder.compare(name, value, result, "own-memory")
    return leaves
