"""The wrappers that sit between an environment and its conversion, and look at what passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from arrayferry._boundary.answers import RESET, STEP
from arrayferry._boundary.detect import layers_of
from arrayferry._core.interruptions import is_from_handler
from arrayferry._core.messages import refuse_choice
from arrayferry.envs.adapters import adapter_of
from arrayferry.envs.forwarding import Forwarding, actions_first
from arrayferry.errors import UnsupportedError
from arrayferry.sanitizer.leaves import PASSED, read
from arrayferry.sanitizer.report import FindingLog, Report
from arrayferry.sanitizer.values import Values
from arrayferry.sanitizer.writes import Writes
from arrayferry.spaces.members import shape_of
from arrayferry.spaces.structure import step_space


class Watching:
    """What all sanitizers share: they look at what goes in and comes out. They read, and never write."""

    env: Any

    def __init__(self, env: Any, shared: bool = False, on_finding: Literal["warn", "raise"] = "warn") -> None:
        refuse_choice("on_finding", on_finding, "warn", "raise")
        RecordConstructorArgs.__init__(self, shared=shared, on_finding=on_finding)  # type: ignore[arg-type]
        self.shared = shared
        self._log = FindingLog(on_finding)
        self._values = Values(self._log, single=not isinstance(env, VectorEnv))
        # Gymnasium's checker keeps the first two observations for a while.
        is_checked = any(isinstance(layer, gym.wrappers.PassiveEnvChecker) for layer in layers_of(env))
        self._writes = Writes(self._log, shared, trusted=2 if is_checked else 0)
        super().__init__(env)  # type: ignore[call-arg]  # the wrapper's

    @property
    def report(self) -> Report:
        """What was found so far."""
        return self._log.report

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode, watched."""
        return self._watch([], lambda: self.env.reset(seed=seed, options=options), RESET)

    def step(self, action: Any) -> Any:
        """Take a step, watched."""
        box = [action]
        del action  # so that only the box holds it, unless somebody else does
        return self._watch(box, lambda: self.env.step(box[0]), STEP)

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
            self._log.step += len(box)
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
        self._values.look_for_nan(leaves)
        if names[0] == "obs":
            self._values.look_at(leaves, box[0], self._space_of(box))

    def _space_of(self, box: list[Any]) -> Any:
        """Return the space that the observation, the first of the values in the box, should be in."""
        return step_space(self.env, "observation_space")

    def _look(self, look: Callable[..., None], *arguments: Any) -> None:
        try:
            look(*arguments)
        except Exception as error:  # a bug in here must not affect the program
            if is_from_handler(error):
                raise
            message = f"{type(error).__name__}: {error}"
            self._log.add("unwatched", "info", "sanitizer", message, "please report it, with the value")
        self._log.warn_or_raise()


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


class VectorSanitizer(Watching, Forwarding, VectorWrapper, RecordConstructorArgs):
    """Watches a vector environment; the arguments are those of `Sanitizer`.

    Example:
        >>> import gymnasium as gym
        >>> from arrayferry.sanitizer import VectorSanitizer
        >>> envs = VectorSanitizer(gym.make_vec("CartPole-v1", num_envs=2), on_finding="raise")
        >>> obs, info = envs.reset(seed=1)
        >>> envs.report.ok
        True
    """

    def step(self, actions: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # the name
        """Take a step in all environments, watched."""
        box = [actions]
        del actions
        return self._watch(box, lambda: self.env.step(box[0]), STEP)

    def _carry(self, call: Any, takes: str | None, returns: str | None, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call that carries arrays, such as one half of a step, watched."""
        names = {"step": STEP, "reset": RESET}.get(returns or "", ())
        if takes == "action":
            actions, args, kwargs = actions_first(*args, **kwargs)
            box = [actions]
            del actions
            return self._watch(box, lambda: call(box[0], *args, **kwargs), names)
        # Between the two calls the environment runs: what changes then is its doing.
        return self._watch([] if takes else None, lambda: call(*args, **kwargs), names)

    def look_at_infos(self, infos: list[dict[str, Any]]) -> None:
        """Look for NaN in infos of each environment, which have passed the sanitizer by."""
        self._look(lambda: self._values.look_for_nan(read([infos], ("info",))))

    def _space_of(self, box: list[Any]) -> Any:
        rows = shape_of(box[1]) if len(box) == len(STEP) else None
        if rows and rows[0] != self.env.num_envs:  # `recv` has returned the first that were ready
            return batch_space(self.env.single_observation_space, rows[0])
        return super()._space_of(box)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of each environment, watched."""
        return self._watch([], lambda: self.env.call(name, *args, **kwargs))


def watch(env: Any, *, shared: bool, on_finding: Literal["warn", "raise"]) -> Any:
    """Return the environment inside a sanitizer; one that already is in such a sanitizer, as it is."""
    if isinstance(env, Watching) and env.shared is shared:
        return env
    wrapper: Any = VectorSanitizer if isinstance(env, VectorEnv) else Sanitizer
    if not isinstance(env, (VectorEnv, gym.Env)):
        from arrayferry.sanitizer import agents  # needs PettingZoo, which is installed if its environment is

        wrapper = agents.AECSanitizer if adapter_of(env).kind == "aec" else agents.ParallelSanitizer
    return wrapper(env, shared=shared, on_finding=on_finding)


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
    reports = [sanitizer.report for sanitizer in _sanitizers(env)]
    if not reports:
        what = "no sanitizer watches this environment"
        raise UnsupportedError(what, "call arrayferry.wrap(env, to, sanitize=True)")
    steps = max(report.steps for report in reports)
    return Report(findings=tuple(finding for report in reports for finding in report), steps=steps)


def _sanitizers(env: Any) -> Iterator[Watching]:
    for layer in layers_of(env):
        if isinstance(layer, Watching):
            yield layer
        for inner in layer.envs if isinstance(layer, SyncVectorEnv) else ():
            yield from _sanitizers(inner)
