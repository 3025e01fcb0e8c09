"""R16: the proof of ownership is sound, on every Python, and off where counts of references prove nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from arrayferry import frameworks
from arrayferry._core import ownership
from core import test_ownership as cases
from reliability.goals import Goal
from reliability.libraries import ARRAYFERRY, Library
from reliability.trials import SOURCE

# Each counter-example of the everyday tests is a trial.
NESTED: list[Callable[[Any], Any]] = [lambda a: a, lambda a: {"x": [(a,)]}]
HELD_IN: list[Callable[[Any], Any]] = [lambda v: v, lambda v: [v], lambda v: {"a": (v,)}]


def _in_a_folder(target: str, case: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cases.test_memory_that_is_not_plain_and_its_own_is_copied(target, case, Path(folder))


def _without_proof(interpreter: str) -> None:
    code = f"import numpy as np\n{interpreter}\n{cases.ALL_IS_COPIED}"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    assert done.stdout == b"copied\n", done.stderr.decode().splitlines()[-1:]


def _cases() -> Iterator[Callable[[], None]]:
    for target in (name for name in ("numpy", "torch") if name in frameworks()):
        for case in cases.SEEN_BY:
            for wrap in NESTED:
                yield partial(cases.test_array_that_somebody_sees_is_copied, target, case, wrap)
        for case in cases.HELD:
            for wrap in HELD_IN:
                yield partial(cases.test_environment_that_returns_what_it_keeps_is_copied, target, case, wrap)
        for case in cases.FOREIGN:
            yield partial(_in_a_folder, target, case)
        if ownership.REFCOUNTS_RELIABLE:  # or else the others would prove nothing
            for case in cases.FRESH:
                yield partial(cases.test_fresh_array_is_taken_over, target, case)
        for case in cases.HOOKS:  # that run between two steps of the lookup
            for holder in (cases.Upgrading, cases.Weakening):
                yield partial(cases.test_a_hook_that_changes_a_reference_is_noticed, target, case, holder)
    for during in cases.INTERRUPTIONS:
        for holder in (cases.Upgrading, cases.Weakening):
            yield partial(
                cases.test_a_holder_that_changes_its_reference_at_any_moment_is_noticed, during, holder
            )
    for call in cases.CALLS.values():
        for case in cases.HELD:
            yield partial(cases.test_argument_that_the_caller_keeps_is_copied, call, case)
    for interpreter in cases.UNPROVING.values():
        yield partial(_without_proof, interpreter)


CASES = list(_cases())


def proof_is_sound(number: int, library: Library) -> None:
    CASES[number]()


class Noting(gym.Wrapper[Any, Any, Any, Any]):
    """Remembers where the last observation was, as a number."""

    address = 0

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self.address = result[0].__array_interface__["data"][0]
        return result


def hit_rate(name: str, steps: int = 50) -> str:
    """In how many steps of an environment the observation was taken over without a copy."""
    noting = Noting(gym.make(name))
    env = ARRAYFERRY.wrap(noting, "numpy", "numpy")
    env.action_space.seed(1)
    env.reset(seed=1)
    taken = 0
    for _ in range(steps):
        obs, _, terminated, truncated, _ = env.step(np.asarray(env.action_space.sample()))
        taken += obs.__array_interface__["data"][0] == noting.address
        if terminated or truncated:
            env.reset()
    return f"{taken} of {steps}"


GOALS = [
    Goal(
        name="R16",
        title="memory that somebody sees is never taken over",
        trial=proof_is_sound,
        unit="a case of the catalogue: views, weak references, held containers, foreign memory, callers",
        full=len(CASES),
        thin=len(CASES),
        sampled=False,
        every_python=True,
    )
]
