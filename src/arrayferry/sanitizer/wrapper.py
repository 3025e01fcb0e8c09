"""The wrappers that sit between an environment and its conversion, and look at what passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from arrayferry._core.interruptions import is_from_handler
from arrayferry._core.messages import refuse_choice
from arrayferry.errors import UnsupportedError
from arrayferry.sanitizer.leaves import PASSED, read
from arrayferry.sanitizer.report import FindingLog, Report
from arrayferry.sanitizer.values import Values
from arrayferry.sanitizer.writes import Writes
from arrayferry.spaces.batched import observation_space_of
from arrayferry.wrappers._answers import RESET, STEP
from arrayferry.wrappers._forwarding import CARRYING, Forwarding, actions_first
from arrayferry.wrappers._kinds import find_kind

__all__ = ["Sanitizer", "VectorSanitizer", "Watching", "findings", "watch"]


if TYPE_CHECKING:
    _VectorWrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:
    _VectorWrapper = VectorWrapper  # which is not generic before Gymnasium 1.4


class Watching:
    """What all sanitizers share: they look at what goes in and comes out. They read, and never write."""

    env: Any

    def __init__(self, env: Any, shared: bool = False, on_finding: Literal["warn", "raise"] = "warn") -> None:
        refuse_choice("on_finding", on_finding, "warn", "raise")
        RecordConstructorArgs.__init__(self, shared=shared, on_finding=on_finding)  # type: ignore[arg-type]
        self.shared = shared
        self._notes = FindingLog(on_finding)
        self._values = Values(self._notes, single=not isinstance(env, VectorEnv))
        self._writes = Writes(self._notes, shared, 2 if _has_checker(env) else 0)
        super().__init__(env)  # type: ignore[call-arg]  # the wrapper's

    @property
    def report(self) -> Report:
        """What was found so far."""
        return self._notes.report

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode, watched."""
        return self._watch([], lambda: self.env.reset(seed=seed, options=options), RESET)

    def render(self) -> Any:
        """Render, watched: this, too, may write where it should not."""
        return self._watch([], lambda: (self.env.render(),), ("frame",))[0]

    def _watch(self, box: list[Any] | None, call: Callable[[], Any], names: Sequence[str] = ()) -> Any:
        """Return what a call to the environment returns, watched.

        Args:
            box: holds the action, if it is a step; None if the environment, and not only the agent, may have
                written something since the last call.
            call: the call.
            names: what the values that it returns are called.
        """
        if box is not None:
            self._notes.step += len(box)
            self._look(self._look_at_action, box)
        try:
            result = call()
        except BaseException:
            self._writes.forget()  # nobody is to blame for what it wrote until then
            raise
        if type(result) is not tuple or len(result) != len(names):
            self._look(self._writes.returned, [])  # nothing to look at, or refused by the wrapper around this
            return result
        returned = [*result]
        del result  # so that only the list holds the values, and other holders can be counted
        self._look(self._look_at_results, returned, names)
        return tuple(returned)

    def _look_at_action(self, box: list[Any]) -> None:
        leaves = read(box, ("action",), PASSED)
        self._writes.entering(leaves)
        self._values.look_for_nan(leaves)

    def _look_at_results(self, box: list[Any], names: Sequence[str]) -> None:
        leaves = read(box, names)
        self._writes.returned(leaves)
        if names[0] == "obs":
            self._values.look_at(leaves, box[0], self._space_of(box))
        else:
            self._values.look_for_nan(leaves)

    def _space_of(self, box: list[Any]) -> Any:
        """Return the space that the observation, the first of the values in the box, should be in."""
        return observation_space_of(self.env)

    def _look(self, look: Callable[..., None], *arguments: Any) -> None:
        try:
            look(*arguments)
        except Exception as error:  # a bug in here must not affect the program
            if is_from_handler(error):
                raise
            message = f"{type(error).__name__}: {error}"
            self._notes.add("unwatched", "info", "sanitizer", message, "please report it, with the value")
        self._notes.warn_or_raise()


class Sanitizer(Watching, gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Watches a single environment. `arrayferry.wrap(env, to, sanitize=True)` puts it in its place.

    Args:
        env: the environment.
        shared: whether the agent sees the environment's memory, as with `copy=False`.
        on_finding: `"warn"`, or `"raise"` to stop at the first finding that is worse than an info.

    Example:
        >>> import gymnasium as gym
        >>> env = Sanitizer(gym.make("CartPole-v1"))
        >>> obs, info = env.reset(seed=1)
        >>> env.report.ok
        True
    """

    def step(self, action: Any) -> Any:
        """Take a step, watched."""
        box = [action]
        del action  # so that only the box holds it, unless somebody else does
        return self._watch(box, lambda: self.env.step(box[0]), STEP)


class VectorSanitizer(Watching, Forwarding, _VectorWrapper, RecordConstructorArgs):
    """Watches a vector environment; the arguments are those of `Sanitizer`.

    Example:
        >>> import gymnasium as gym
        >>> from arrayferry.sanitizer import VectorSanitizer
        >>> envs = VectorSanitizer(gym.make_vec("CartPole-v1", num_envs=2), on_finding="raise")
        >>> obs, info = envs.reset(seed=1)
        >>> envs.report.ok
        True
    """

    def step(self, actions: Any) -> Any:
        """Take a step in all environments, watched."""
        box = [actions]
        del actions
        return self._watch(box, lambda: self.env.step(box[0]), STEP)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            return partial(self._watch_half, CARRYING[name], found) if name in CARRYING else found

    def _watch_half(self, carried: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make one of the two calls that a step or a reset can consist of, watched."""
        if carried == "actions":
            actions, args, kwargs = actions_first(*args, **kwargs)
            box = [actions]
            del actions
            return self._watch(box, lambda: call(box[0], *args, **kwargs))
        names = {"step": STEP, "reset": RESET}.get(carried, ())
        # Between the two calls the environment runs: what changes then is its doing.
        return self._watch(None if names else [], lambda: call(*args, **kwargs), names)

    def look_at_infos(self, infos: list[dict[str, Any]]) -> None:
        """Look for NaN in infos of each environment, which have passed the sanitizer by."""
        self._look(lambda: self._values.look_for_nan(read([infos], ("info",))))

    def _space_of(self, box: list[Any]) -> Any:
        if len(box) == len(STEP) and getattr(self, "is_async", False):  # EnvPool, which returns some rows
            return batch_space(self.env.single_observation_space, len(box[1]))
        return super()._space_of(box)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of each environment, watched."""
        return self._watch([], lambda: self.env.call(name, *args, **kwargs))

    def get_attr(self, name: str) -> Any:
        """Return an attribute of each environment."""
        return self.env.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment."""
        self.env.set_attr(name, values)


def watch(env: Any, *, shared: bool, on_finding: Literal["warn", "raise"]) -> Any:
    """Return the environment inside a sanitizer; one that already is in such a sanitizer, as it is."""
    if isinstance(env, Watching) and env.shared is shared:
        return env
    return _kind_for(env)(env, shared=shared, on_finding=on_finding)


def _kind_for(env: Any) -> Any:
    if isinstance(env, VectorEnv):
        return VectorSanitizer
    if isinstance(env, gym.Env):
        return Sanitizer
    from arrayferry.sanitizer import agents  # needs PettingZoo, which is there if its environment is

    return agents.AECSanitizer if hasattr(env, "agent_iter") else agents.ParallelSanitizer


def findings(env: Any) -> Report:
    """Return what the sanitizers in a stack of wrappers have found so far.

    Those in the environments of a `SyncVectorEnv` are included; those in worker processes are not.

    Raises:
        UnsupportedError: no sanitizer watches this environment.

    Example:
        >>> import arrayferry, gymnasium as gym
        >>> env = arrayferry.wrap(gym.make("CartPole-v1"), "numpy", sanitize=True)
        >>> obs, info = env.reset(seed=1)
        >>> len(arrayferry.findings(env))
        0
    """
    reports = [one.report for one in _sanitizers(env)]
    if not reports:
        what = "no sanitizer watches this environment"
        raise UnsupportedError(what, "call arrayferry.wrap(env, to, sanitize=True)")
    found = tuple(finding for report in reports for finding in report)
    return Report(findings=found, steps=max(report.steps for report in reports))


def _sanitizers(env: Any) -> Iterator[Watching]:
    if isinstance(env, Watching):
        yield env
    is_wrapper = isinstance(env, (gym.Wrapper, VectorWrapper)) or find_kind(env) is not None
    inner = [vars(env)["env"]] if is_wrapper and "env" in vars(env) else []
    for one in env.envs if isinstance(env, SyncVectorEnv) else inner:
        yield from _sanitizers(one)


def _has_checker(env: Any) -> bool:
    """Return whether Gymnasium's checker is inside: it keeps the first two observations for a while."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.PassiveEnvChecker):
            return True
        env = env.env
    return False
