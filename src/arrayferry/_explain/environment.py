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
from arrayferry._core.convert import Converter, Namespace
from arrayferry._core.messages import count_of
from arrayferry._explain.advice import advice_for
from arrayferry._explain.explanation import Explanation
from arrayferry._explain.leaves import Leaf, compared, record
from arrayferry._explain.reasons import REASONS
from arrayferry.envs.adapters import adapter_of
from arrayferry.envs.opening import opened
from arrayferry.envs.rollout import rollout_of
from arrayferry.errors import FerryError
from arrayferry.wrappers import wrap

__all__ = ["explain_environment"]

_HOLDER = "the environment"

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
        run = _Run(base, boundary_of(wrapped))
        with suppress(FerryError):  # a refused leaf is reported below, with the others
            run.rollout.reset(wrapped, seed)  # here the wrapper learns which arrays the environment takes
        by_path: dict[str, list[Leaf]] = defaultdict(list)
        for number in range(2 * steps):
            for leaf in run.step(looks=number >= steps):
                by_path[leaf.path].append(leaf)
        seconds = {name: min(times, default=0.0) for name, times in run.laps.items()}
        leaves = tuple(map(_usual, by_path.values()))
        advice = advice_for(leaves, run.outgoing, vector=run.is_vector)
        inner, target = boundary_of(base), run.outgoing.framework
        if inner is not None and inner.outgoing.framework is target:
            advice = (*advice, f"both sides are {target.name}: leave one wrapper out")
        return Explanation(run.title, leaves, advice, seconds, steps)


def _usual(same: list[Leaf]) -> Leaf:
    """Return a leaf as it was most of the time, or as refused if it ever was."""
    same = [leaf for leaf in same if leaf.memory == "refused"] or same
    kinds = [(leaf.before, leaf.after, leaf.memory, leaf.reason) for leaf in same]
    kind, seen = Counter(kinds).most_common(1)[0]
    alike = [leaf for leaf, its_kind in zip(same, kinds) if its_kind == kind]
    return replace(alike[-1], seconds=min(leaf.seconds for leaf in alike), seen=seen)


class _Run:
    """An environment that is stepped with sampled actions, through the boundary of its wrapper."""

    def __init__(self, env: Any, boundary: Boundary) -> None:
        self._env, self._boundary, self.outgoing = env, boundary, boundary.outgoing
        self.rollout = rollout_of(env, adapter_of(env).kind)
        self.is_vector = isinstance(env, VectorEnv)
        self._to_agent = Converter(self.outgoing.framework, self.outgoing.device)
        self.laps: dict[str, list[float]] = {"action": [], "step": [], "out": []}
        name = getattr(getattr(env, "spec", None), "id", type(env).__name__)
        if isinstance(boundary, AgentsBoundary):
            name = str(env)
        many = f" x {env.num_envs}" if self.is_vector else ""
        self.title = f"{name}{many} to {self.outgoing.framework.name}"

    def step(self, looks: bool) -> list[Leaf]:
        """Take a step; return what becomes of its leaves, or convert them and note how long that takes."""
        action = self._to_agent(self.rollout.sample())
        boundary = self.rollout.boundary(self._boundary)
        start = perf_counter()
        member = boundary.convert_action(action)
        converted = perf_counter()
        box = [self.rollout.step(self._env, member)]
        stepped = perf_counter()
        self.laps["action"].append(converted - start)
        self.laps["step"].append(stepped - converted)
        if looks:
            leaves = _action_leaves(action, member, boundary.state.to_env, converted - start)
            return leaves + self._leaves_of_result(box)
        try:
            _, _, terminated, truncated, _ = self._boundary.convert_step(box)
            self.laps["out"].append(perf_counter() - stepped)
        except FerryError:  # it is among the leaves; whether the episode is over is unknown
            self._env.reset()
        else:
            self.rollout.start_again(self._env, terminated, truncated)
        return []

    def _leaves_of_result(self, box: list[Any]) -> list[Leaf]:
        box[:] = checked("step", STEP, box.pop())
        self._boundary.learn_from(box)
        if self.is_vector:
            leaves = record(self.outgoing, box, STEP, _HOLDER)
            self.rollout.start_again(self._env, *box[2:4])
            return leaves
        numbers, box[1:4] = box[1:4], []  # so that only the box holds what is walked
        leaves = record(self.outgoing, box, RESET, _HOLDER)
        _, *converted, _ = self._boundary.convert_step([(None, *numbers, None)])
        for name, value, result in zip(STEP[1:4], numbers, converted):
            leaves += compared(name, value, result, self.outgoing, "own-memory", _HOLDER)
        self.rollout.start_again(self._env, *numbers[1:])
        return leaves


def _action_leaves(action: Any, member: Any, to_env: Converter, seconds: float) -> list[Leaf]:
    """Return the leaves of an action on its way in: from the policy's output to a member of the space."""
    leaves = []
    for leaf in compared("action", action, member, to_env, "held", "the agent"):
        memory, reason = _IN_ACTIONS.get(leaf.reason, (leaf.memory, leaf.reason))
        why = REASONS[reason].format(after=leaf.after) if reason != leaf.reason else leaf.why
        leaves.append(replace(leaf, memory=memory, reason=reason, why=why))
    return [replace(leaf, seconds=seconds / len(leaves)) for leaf in leaves]
