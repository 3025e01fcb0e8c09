"""What the sanitizers of single and of vector environments share: they look at what goes in and comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv

from arrayferry._core.messages import refuse_choice
from arrayferry.sanitizer.leaves import PASSED, Leaf, read
from arrayferry.sanitizer.memory import Loans
from arrayferry.sanitizer.notes import Notes
from arrayferry.sanitizer.report import Report
from arrayferry.sanitizer.values import Values
from arrayferry.sanitizer.writes import Writes
from arrayferry.wrappers._boundary import RESET

__all__ = ["Watching"]


class Watching:
    """Watches one environment. It reads, and never writes."""

    env: Any

    def __init__(
        self,
        env: Any,
        shared: bool = False,
        on_finding: Literal["warn", "raise"] = "warn",
        steps: int = 4,
        limit: int = 1 << 28,
    ) -> None:
        refuse_choice("on_finding", on_finding, "warn", "raise")
        arguments = {"shared": shared, "on_finding": on_finding, "steps": steps, "limit": limit}
        RecordConstructorArgs.__init__(self, **arguments)  # type: ignore[arg-type]
        self.shared = shared
        self._notes = Notes(on_finding)
        self._values = Values(self._notes, single=not isinstance(env, VectorEnv))
        self._writes = Writes(self._notes, shared, 2 if _has_checker(env) else 0, Loans(steps, limit))
        self._seconds, self._bytes = 0.0, 0
        super().__init__(env)  # type: ignore[call-arg]  # that of the wrapper

    @property
    def report(self) -> Report:
        """What was found so far, and what it took."""
        found = self._notes.findings()
        return Report(findings=found, steps=self._notes.step, seconds=self._seconds, watched=self._bytes)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode, watched."""
        return self._watch([], lambda: self.env.reset(seed=seed, options=options), RESET)

    def render(self) -> Any:
        """Render, watched: it may write where it should not, too."""
        return self._watch([], self.env.render)

    def _watch(self, box: list[Any], call: Callable[[], Any], names: Sequence[str] = ()) -> Any:
        """Return what a call of the environment returns; the box has the action, if it is a step."""
        self._notes.step += len(box)
        self._look_at_action(box)
        try:
            result = call()
        except BaseException:
            self._writes.forget()  # whatever it wrote until then, nobody is to blame
            raise
        if type(result) is not tuple or len(result) != len(names):
            self._look_at_results([], ())  # it is not what was expected: whoever is outside will say so
            return result
        returned = [*result]
        del result  # so that the list alone holds the values, and it can be told who else does
        self._look_at_results(returned, names)
        return tuple(returned)

    def _look_at_action(self, box: list[Any]) -> None:
        with self._looking():
            leaves = self._read(box, ("action",), PASSED)
            self._writes.entering(leaves)
            self._values.look_for_nan(leaves)
        self._notes.tell()

    def _look_at_results(self, box: list[Any], names: Sequence[str]) -> None:
        with self._looking():
            leaves = self._read(box, names)
            self._writes.returned(leaves)
            if box:
                self._values.look_at(leaves, box[0], self.env.observation_space)
        self._notes.tell()

    def _read(self, box: list[Any], names: Sequence[str], passed: int = 0) -> list[Leaf]:
        leaves = read(box, names, passed)
        self._bytes += sum(leaf.view.nbytes for leaf in leaves if leaf.owner and leaf.view is not None)
        return leaves

    @contextmanager
    def _looking(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        except Exception as error:  # the environment and its agent shall not notice that they are watched
            message = f"{type(error).__name__}: {error}"
            self._notes.add("unwatched", "info", "sanitizer", message, "please report it, with the value")
        finally:
            self._seconds += time.perf_counter() - start


def _has_checker(env: Any) -> bool:
    """Return whether Gymnasium's checker is inside: it keeps the first two observations for a while."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.PassiveEnvChecker):
            return True
        env = env.env
    return False
