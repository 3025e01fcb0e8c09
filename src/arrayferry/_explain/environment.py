"""An environment explained: what comes out of real steps, and the actions that go in."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from arrayferry._core.convert import Converter, Namespace
from arrayferry._core.registry import framework_of
from arrayferry._core.walk import Slot
from arrayferry._explain.advice import advice_for
from arrayferry._explain.explanation import Explanation, merged
from arrayferry._explain.leaves import Leaf, flat, kind_of, leaf_of, overlap, record
from arrayferry._explain.why import memory_of
from arrayferry.errors import FerryError, OptionError
from arrayferry.wrappers import wrap
from arrayferry.wrappers._boundary import RESET, STEP, Boundary, checked

__all__ = ["of_environment"]

_HOLDER = "the environment"


def of_environment(env: Any, to: Namespace, steps: int, seed: int | None, **options: Any) -> Explanation:
    """Explain what the wrapper does in a step, after taking that many; the options are those of `wrap`."""
    if steps < 1:
        raise OptionError(f"steps={steps}", "it is 1 or more")
    wrapped: Any = wrap(env, to, **options)
    boundary: Boundary = wrapped._boundary
    out = boundary.outgoing
    with suppress(FerryError):  # what is refused is told leaf by leaf, below
        wrapped.reset(seed=seed)  # the wrapper learns here whose arrays the environment takes
    env.action_space.seed(seed)
    sample = Converter(out.framework, out.device)
    passes: list[list[Leaf]] = []
    laps: dict[str, list[float]] = {"step": [], "action": [], "out": []}
    for count in range(2 * steps):
        action = sample(env.action_space.sample())
        start = perf_counter()
        member = boundary.convert_action(action)
        laps["action"].append(perf_counter() - start)
        going_in = _action_leaves(action, member, boundary, laps["action"][-1])
        box, rest, done = _stepped(env, member, laps["step"])
        names = STEP if len(box) == len(STEP) else RESET
        if count % 2:  # in every other step, how long all of it takes; in the others, what each leaf does
            with suppress(FerryError):
                start = perf_counter()
                out._walker([*map(Slot, names)], tuple).unpack([tuple(box)])
                laps["out"].append(perf_counter() - start)
        else:
            passes.append([*going_in, *record(out, box, names, _HOLDER), *rest])
        if done:
            env.reset()
    leaves = merged(passes)
    best = {name: min(times, default=0.0) for name, times in laps.items()}
    return Explanation(_title(env, out), leaves, advice_for(leaves, out, vector=_is_vector(env)), best, steps)


def _stepped(env: Any, member: Any, laps: list[float]) -> tuple[list[Any], list[Leaf], bool]:
    """What a step gives, in a list that alone holds it; what is not converted; and whether it is over."""
    start = perf_counter()
    result = env.step(member)
    laps.append(perf_counter() - start)
    obs, reward, terminated, truncated, info = checked("step", STEP, result)
    del result
    if _is_vector(env):
        over = env.metadata.get("autoreset_mode") is AutoresetMode.DISABLED and _any(terminated, truncated)
        return [obs, reward, terminated, truncated, info], [], over
    numbers = {
        "reward": (reward, "float"),
        "terminated": (terminated, "bool"),
        "truncated": (truncated, "bool"),
    }
    rest = [_number(name, value, kind) for name, (value, kind) in numbers.items()]
    return [obs, info], rest, bool(terminated or truncated)


def _number(name: str, value: Any, kind: str) -> Leaf:
    before = kind_of(value)
    if before == kind:
        return Leaf(name, None, before, kind, (), "left alone", f"it stays a {kind}", 0, 0.0)
    owner = framework_of(type(value))
    start = owner.name if owner else "numpy" if isinstance(value, np.generic) else "python"
    return Leaf(name, None, before, kind, (start, "python"), "made", f"it becomes a {kind}", 0, 0.0)


def _action_leaves(action: Any, member: Any, boundary: Boundary, seconds: float) -> list[Leaf]:
    """The action on its way in: from what the policy gives to a member of the action space."""
    given, taken = flat(action, "action"), flat(member, "action")
    if given.keys() != taken.keys():  # a space whose members are built otherwise: all of it at once
        given, taken = {"action": action}, {"action": member}
    incoming = boundary.incoming
    leaves = []
    for path, before in given.items():
        after = taken[path]
        leaf = leaf_of(path, before, after, incoming, "the agent still holds it", None, seconds / len(given))
        leaves.append(_as_member(leaf, before, after))
    return leaves


def _as_member(leaf: Leaf, before: Any, after: Any) -> Leaf:
    if isinstance(after, np.generic):
        return replace(leaf, memory="made", why="one number, as the space has")
    if leaf.memory == "cast":
        return replace(leaf, why=f"the space has {leaf.after}")
    if overlap(memory_of(before, framework_of(type(before))), memory_of(after, framework_of(type(after)))):
        return replace(leaf, memory="shared", why="it is a member already")
    return leaf


def _any(*flags: Any) -> bool:
    return any(np.any(np.asarray(flag)) for flag in flags)


def _is_vector(env: Any) -> bool:
    return isinstance(env, VectorEnv)


def _title(env: Any, out: Converter) -> str:
    spec = getattr(env, "spec", None)
    name = type(env).__name__ if spec is None else spec.id
    return f"{name}{f' x {env.num_envs}' if _is_vector(env) else ''} to {out.framework.name}"
